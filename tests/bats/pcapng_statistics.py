#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""pcapng_statistics.py FILE: print the totals of each interface of a capture, a line each: name, packets, lost.

Fails if the file does not end with a complete block.
"""

import struct
import sys

INTERFACE, STATISTICS = 1, 5
NAME, RECEIVED, LOST = 2, 4, 5


def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("=II", data, at)
        if length < 12 or struct.unpack_from("=I", data, at + length - 4)[0] != length:
            sys.exit("a block is damaged")
        yield kind, data[at + 8:at + length - 4]
        at += length


def options(body):
    found = {}
    while body:
        code, length = struct.unpack_from("=HH", body)
        found[code] = body[4:4 + length]
        body = body[4 + (length + 3) // 4 * 4:]
    return found


def main():
    names = []
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    for kind, body in blocks(data):
        if kind == INTERFACE:
            names.append(options(body[8:])[NAME].decode())
        elif kind == STATISTICS:
            had = options(body[12:])
            numbers = [struct.unpack("=Q", had[code])[0] for code in (RECEIVED, LOST)]
            print(names[struct.unpack_from("=I", body)[0]], *numbers)


main()
