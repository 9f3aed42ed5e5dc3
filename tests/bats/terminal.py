#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""terminal.py COLUMNS LINES COMMAND..: run the command on a terminal of this size, copy the terminal's output to
standard output, and exit with the command's status. SIGTERM types Ctrl-C there; SIGUSR1 makes the terminal ten
lines higher."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios


def set_size(terminal, columns, lines):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def main():
    columns, lines = int(sys.argv[1]), int(sys.argv[2])
    pid, terminal = pty.fork()
    if pid == 0:
        set_size(1, columns, lines)
        os.execvp(sys.argv[3], sys.argv[3:])
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(terminal, b"\x03"))
    signal.signal(signal.SIGUSR1, lambda number, frame: set_size(terminal, columns, lines + 10))
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not data:
            break
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


main()
