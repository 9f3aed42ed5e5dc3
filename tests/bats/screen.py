#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""screen.py COLUMNS LINES COMMAND..: run the command on a terminal of this size, and keep the contents of its screen.
Standard input tells what to do, a line each:

    sees REGEX      wait until a line of the screen matches
    misses REGEX    wait until no line matches
    keys TEXT       type TEXT, in which Python's escapes may be used
    resize COLUMNS LINES
    signal NAME     send this signal, such as TERM, to the command
    run COMMAND     run a shell command, which has to succeed
    ends STATUS     wait until the command has ended with this exit status

The terminal knows few control sequences, and an unknown one ends the test. So the test notices when names of programs
or peers could do harm to a terminal. At the first failure screen.py prints the screen and exits with status 1. It
waits for HOSTS_PATIENCE times 10 seconds."""

import codecs
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

PATIENCE = 10 * int(os.environ.get("HOSTS_PATIENCE", "1"))
# For tic(1): the capabilities that a full-screen program needs.
TERMINAL = r"""little|a terminal that knows little,
	am, cols#80, lines#24,
	bel=^G, clear=\E[H\E[J, cr=\r, cub1=^H, cud1=\n, cup=\E[%i%p1%d;%p2%dH, ed=\E[J, el=\E[K, ind=\n, kbs=^H,
	kcub1=\E[D, kcuf1=\E[C,
"""


class Screen:
    def __init__(self, columns, lines):
        self.y = self.x = 0
        self.cells = []
        self.left = b""
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        old = self.cells
        self.cells = [[" "] * columns for _ in range(lines)]
        for y in range(min(lines, len(old))):
            for x in range(min(columns, len(old[y]))):
                self.cells[y][x] = old[y][x]
        # The command may be in the middle of a line for the old size.
        self.y, self.x = min(self.y, lines - 1), min(self.x, columns)

    def text(self):
        return ["".join(line).rstrip() for line in self.cells]

    def erase(self, from_x, from_y, to_y):
        for y in range(from_y, to_y):
            for x in range(from_x if y == from_y else 0, self.columns):
                self.cells[y][x] = " "

    def sequence(self, parameters, final):
        if final == "H" and re.fullmatch(r"(\d+;\d+)?", parameters):
            y, x = (int(n) for n in (parameters or "1;1").split(";"))
            self.y, self.x = min(y, self.lines) - 1, min(x, self.columns) - 1
        elif final == "J" and not parameters:
            self.erase(self.x, self.y, self.lines)
        elif final == "K" and not parameters:
            self.erase(self.x, self.y, self.y + 1)
        else:
            raise ValueError(f"the terminal was sent ESC[{parameters}{final}")

    def line_feed(self):
        self.y += 1
        if self.y == self.lines:
            self.y -= 1
            self.cells = self.cells[1:] + [[" "] * self.columns]

    def put(self, char):
        if self.x == self.columns:
            self.x = 0
            self.line_feed()
        if self.y < self.lines:
            self.cells[self.y][self.x] = char
        self.x += 1

    def feed(self, data):
        self.left += data
        while self.left:
            if self.left[0] == 0x1B:
                found = re.match(rb"\x1b\[([0-9;?>]*)([@-~])", self.left)
                if not found and len(self.left) < 16 and re.fullmatch(rb"\x1b(\[[0-9;?>]*)?", self.left):
                    return  # the rest comes later
                if not found:
                    raise ValueError(f"the terminal was sent {self.left[:16]!r}")
                self.sequence(found.group(1).decode(), found.group(2).decode())
                self.left = self.left[found.end():]
                continue
            length = next((n for n, lead in ((4, 0xF0), (3, 0xE0), (2, 0xC0)) if self.left[0] >= lead), 1)
            if len(self.left) < length:
                return
            char, self.left = self.left[:length].decode(errors="strict"), self.left[length:]
            if char == "\r":
                self.x = 0
            elif char == "\n":
                self.line_feed()
            elif char == "\b":
                self.x = max(0, self.x - 1)
            elif char < " " or "\x7f" <= char < "\xa0":
                raise ValueError(f"the terminal was sent {char!r}")
            else:
                self.put(char)


class Terminal:
    def __init__(self, columns, lines, command, terminfo):
        self.screen = Screen(columns, lines)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            self.set_size(1, columns, lines)
            os.environ.update(TERM="little", TERMINFO=terminfo, LC_ALL="C.UTF-8")
            os.environ.pop("COLUMNS", None)
            os.environ.pop("LINES", None)
            os.execvp(command[0], command)

    @staticmethod
    def set_size(fd, columns, lines):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        """@return false: the command has ended"""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.screen.feed(data)
        return bool(data)

    def sees(self, pattern):
        return any(re.search(pattern, line) for line in self.screen.text())

    def wait(self, what, true):
        end = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > end:
                raise ValueError(f"{what}: not in {PATIENCE} s")
            if not self.read(0.1):
                raise ValueError(f"{what}: the command has ended before")

    def ends(self, status):
        end = time.monotonic() + PATIENCE
        while self.read(0.1):
            if time.monotonic() > end:
                raise ValueError(f"it has not ended in {PATIENCE} s")
        got = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = None
        if got != status:
            raise ValueError(f"it has ended with status {got}, not {status}")

    def do(self, verb, words):
        if verb == "sees":
            self.wait(f"sees {words}", lambda: self.sees(words))
        elif verb == "misses":
            self.wait(f"misses {words}", lambda: not self.sees(words))
        elif verb == "keys":
            os.write(self.fd, codecs.decode(words, "unicode_escape").encode())
        elif verb == "resize":
            columns, lines = (int(word) for word in words.split())
            self.screen.resize(columns, lines)
            self.set_size(self.fd, columns, lines)
        elif verb == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + words))
        elif verb == "run":
            subprocess.run(words, shell=True, check=True)
        elif verb == "ends":
            self.ends(int(words))
        else:
            raise ValueError(f"{verb} is nothing that can be done")


def main():
    columns, lines, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as terminfo:
        subprocess.run(["tic", "-x", "-o", terminfo, "-"], input=TERMINAL, text=True, check=True)
        terminal = Terminal(columns, lines, command, terminfo)
        try:
            for line in sys.stdin:
                verb, _, words = line.strip().partition(" ")
                if verb:
                    terminal.do(verb, words)
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            print(f"{shlex.join(command)}: {line.strip()}: {error}")
            print("\n".join("|" + text for text in terminal.screen.text()))
            if terminal.pid:
                os.kill(terminal.pid, signal.SIGKILL)
            sys.exit(1)


main()
