#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write standard input to a file and measure pauses in it: curl .. | pauses.py FILE

Prints one line, LENGTH MIB: the longest pause in milliseconds, and after how many MiB it began.
"""
import os
import sys
import time


def main():
    longest, after, got = 0.0, 0, 0
    with open(sys.argv[1], "wb", buffering=0) as out:
        last = None
        while data := os.read(0, 1 << 20):
            now = time.monotonic()
            if last is not None and now - last > longest:
                longest, after = now - last, got
            got += len(data)
            out.write(data)
            last = time.monotonic()  # the time that writing takes is no pause
    print(f"{longest * 1000:.1f} {after >> 20}")


main()
