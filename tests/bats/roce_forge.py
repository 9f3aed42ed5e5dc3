#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Send packets to UDP 4791 that no peer of a QP would send. Each must be dropped and counted.

usage: roce_forge.py OWN-ADDRESS ADDRESS QPN
"""
import socket
import struct
import sys
import zlib

own, addr, qpn = sys.argv[1], sys.argv[2], int(sys.argv[3])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER = DO: identification 0
sock.bind((own, 4791))


def packet(opcode, dest, psn, rest, icrc=None, version=0):
    bth = struct.pack(">BBHII", opcode, version, 0xFFFF, dest, 0x80000000 | psn)
    body = bth + rest
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 20 + 8 + len(body) + 4, 0, 0x4000, 0xFF, 17,
                     0xFFFF, socket.inet_aton(own), socket.inet_aton(addr))
    udp = struct.pack(">HHHH", 4791, 4791, 8 + len(body) + 4, 0xFFFF)
    masked = bytearray(body)
    masked[4] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + ip + udp + bytes(masked)) if icrc is None else icrc
    return body + struct.pack("<I", crc)


RETH = struct.pack(">QII", 0x700000000000, 0x12345678, 64)
FORGED = [
    packet(0x0A, qpn, 1, RETH + bytes(64)),  # right QP, wrong sender
    packet(0x04, qpn, 1, bytes(44)),  # SEND to it
    packet(0x11, qpn, 1, struct.pack(">I", 0x1F000001)),  # ACK
    packet(0x0A, qpn ^ 0x555555, 1, RETH + bytes(64)),  # no such QP
    packet(0x04, qpn, 1, bytes(44), icrc=0xDEADBEEF),  # bad ICRC
    packet(0x04, qpn, 1, bytes(44), version=1),  # bad transport header version
    b"\x04",  # too short for anything
    packet(0x0A, qpn, 1, RETH[:7]),  # RETH cut off
    packet(0xFF, qpn, 1, bytes(44)),  # unknown opcode
]
for data in FORGED:
    sock.sendto(data, (addr, 4791))
