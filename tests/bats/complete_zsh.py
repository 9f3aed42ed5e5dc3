#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""complete_zsh.py DIRECTORY KEYS..: run an interactive zsh on a terminal, with the completion functions of DIRECTORY
before its own, and type KEYS and then a tab. Prints a line for each KEYS, separated by tabs: the command line after
completion, and the words that were offered, in order."""

import os
import pty
import select
import shlex
import sys
import time

PATIENCE = 30 * int(os.environ.get("HOSTS_PATIENCE", "1"))  # seconds, for each answer
TELL = 3  # the descriptor on which the shell answers

# What stands in front of compadd sees every word that would be listed. The tab is a widget that completes and
# then answers, so that nothing has to be guessed from what the terminal shows.
SETUP = """
unset HISTFILE
setopt no_beep
PS1= PS2= LISTMAX=1000
fpath=({directory} $fpath)
autoload -Uz compinit && compinit -D -u
zstyle ':completion:*' completer _complete
typeset -ga offered
compadd() {{
	local -a hits
	case " $* " in
		(*" -"[OAD]" "*) ;;
		(*) builtin compadd -O hits "$@"; offered+=("${{hits[@]}}") ;;
	esac
	builtin compadd "$@"
}}
complete-and-tell() {{
	offered=()
	zle complete-word
	print -ru {tell} -- "$BUFFER"$'\\t'"${{(pj:\\t:)${{(@ou)offered}}}}"
	zle kill-buffer
}}
zle -N complete-and-tell
bindkey -e '^I' complete-and-tell
print -u {tell} ready
"""


class Shell:
    def __init__(self, directory):
        told, tell = os.pipe()
        self.told, self.answer = told, b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.dup2(tell, TELL)
            os.environ["TERM"] = "dumb"
            os.execvp("zsh", ["zsh", "-f", "-i"])
        os.close(tell)
        self.type(f" eval {shlex.quote(SETUP.format(directory=shlex.quote(directory), tell=TELL))}\n")
        self.wait()

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def wait(self):
        """Read an answer. The terminal's output has to be read too, or the shell would stop."""
        end = time.monotonic() + PATIENCE
        seen = b""
        while b"\n" not in self.answer:
            ready = select.select([self.told, self.terminal], [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                sys.exit(f"complete_zsh: no answer for {PATIENCE} s; the terminal shows: {seen!r}")
            if self.terminal in ready:
                seen += os.read(self.terminal, 65536)
            if self.told in ready:
                self.answer += os.read(self.told, 65536)
        line, self.answer = self.answer.split(b"\n", 1)
        return line.decode()


def main():
    shell = Shell(os.path.abspath(sys.argv[1]))
    for keys in sys.argv[2:]:
        shell.type(keys + "\t")
        print(shell.wait(), flush=True)


main()
