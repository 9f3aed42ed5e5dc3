#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Send one TCP SYN with given options: raw_syn.py SOURCE SPORT DESTINATION DPORT OPTIONS_IN_HEX [KEY [DATA]]

With a key, TCP's MD5 option (RFC 2385) follows them; with data, the SYN carries that."""
import hashlib
import socket
import struct
import sys


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def syn(source, sport, destination, dport, options, key, data):
    options += bytes([19, 18]) + bytes(16) if key else b""
    options += b"\0" * (-len(options) % 4)
    words = 5 + len(options) // 4

    def header(check):
        return struct.pack("!HHIIBBHHH", sport, dport, 1000, 0, words << 4, 2, 64240, check, 0)

    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    pseudo = addresses + struct.pack("!BBH", 0, socket.IPPROTO_TCP, words * 4 + len(data))
    # The signature covers no options.
    signature = hashlib.md5(pseudo + header(0) + data + key).digest()
    options = options.replace(bytes([19, 18]) + bytes(16), bytes([19, 18]) + signature)
    return header(checksum(pseudo + header(0) + options + data)) + options + data


def main():
    source, sport, destination, dport, options = sys.argv[1:6]
    key, data = (sys.argv[6:] + ["", ""])[:2]
    segment = syn(source, int(sport), destination, int(dport), bytes.fromhex(options), key.encode(), data.encode())
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        raw.bind((source, 0))
        raw.sendto(segment, (destination, 0))


if __name__ == "__main__":
    main()
