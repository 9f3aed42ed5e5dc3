#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A client whose SYN carries the SMC-R option, and which then breaks the rules of the CLC exchange.

usage: clc_attack.py ADDRESS PORT ATTACK
Exits 0 if the server ended the TCP connection (or, for `decline`, went on in plain TCP).

       clc_attack.py ADDRESS PORT confirm GID-ADDRESS MAC
Makes a first contact up to Confirm, with that IPv4 address and MAC for its RNIC. Prints "sent", and exits 0
when the server answers or ends the connection.

       clc_attack.py ADDRESS PORT propose COUNT
Makes COUNT connections, sends a valid Proposal on each, all with different instance IDs, and nothing more. Prints
"N accepted, M declined" when each has its answer, and keeps the connections until its input ends.
"""
import errno
import socket
import struct
import sys

EYE = b"\xe2\xd4\xc3\xd9"
SOL_SMCR, SO_CLAIM, SO_NEGOTIATED = 0x534D4352, 1, 2


def message(kind, body, length=None, trailer=EYE):
    total = 8 + len(body) + 4 if length is None else length
    return EYE + struct.pack(">BHB", kind, total, 0x10) + body + trailer


PROPOSAL = message(1, bytes(8) + bytes(16) + b"\x02" + bytes(5) + struct.pack(">H", 0)
                   + socket.inet_aton("10.77.0.0") + bytes([24, 0, 0, 0]))
ACCEPT = message(2, bytes(56))
CONFIRM = message(3, bytes(56))
DECLINE = message(4, bytes(8) + struct.pack(">I", 0x03030000) + bytes(4))

ATTACKS = {
    "garbage": b"\x00" * 52,
    "bad-trailer": PROPOSAL[:-4] + b"XXXX",
    "oversized": message(1, bytes(40), length=60000),
    "truncated": PROPOSAL[:30],
    "accept-first": ACCEPT,
    "confirm-first": CONFIRM,
    "wrong-type": message(9, bytes(40)),
    "application-data": b"GET / HTTP/1.0\r\n\r\n" + b"x" * 100,
    "zero-length": message(1, b"", length=0),
    "decline": DECLINE + b"hello",
    "silent": b"",
}


def promised(addr, port):
    sock = socket.socket()
    sock.setsockopt(SOL_SMCR, SO_CLAIM, 1)
    sock.connect((addr, port))
    if sock.getsockopt(SOL_SMCR, SO_NEGOTIATED) != 1:
        sys.exit("the option was not negotiated")
    return sock


def propose(addr, port, count):
    socks, answers = [], []
    for number in range(count):
        sock = promised(addr, port)
        who = b"\x07" + bytes([number]) + bytes(6) + bytes(16) + b"\x02" + bytes(5)
        sock.sendall(message(1, who + struct.pack(">H", 0) + socket.inet_aton(addr)[:3] + bytes([0, 24, 0, 0, 0])))
        socks.append(sock)
    for sock in socks:
        sock.settimeout(60)
        answers.append(sock.recv(200)[4])
    print(f"{answers.count(2)} accepted, {answers.count(4)} declined", flush=True)
    sys.stdin.read()


def first_contact(sock, address, mac):
    gid = bytes(10) + b"\xff\xff" + socket.inet_aton(address)
    who = bytes([2, 1]) + bytes(6) + gid + bytes.fromhex(mac.replace(":", ""))
    network = socket.inet_aton(address)[:3] + bytes([0, 24])
    sock.sendall(message(1, who + struct.pack(">H", 0) + network + bytes(3)))
    accept = sock.recv(200)
    if accept[4:5] != b"\x02":
        sys.exit(f"no Accept but {accept!r}")
    memory = struct.pack(">IBIBBQ", 0x1234, 1, 7, 0x03, 0, 0x10000)
    sock.sendall(message(3, who + b"\x00\x00\x09" + memory + bytes(1) + b"\x00\x00\x01"))
    print("sent", flush=True)
    sock.settimeout(60)
    try:
        sock.recv(100)
    except ConnectionResetError:
        pass


def main():
    addr, port, attack = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if attack == "propose":
        propose(addr, port, int(sys.argv[4]))
        sys.exit(0)
    sock = promised(addr, port)
    if attack == "confirm":
        first_contact(sock, *sys.argv[4:6])
        sys.exit(0)
    sock.settimeout(120)
    try:
        sock.sendall(ATTACKS[attack])
        if attack == "truncated":
            sock.shutdown(socket.SHUT_WR)
        answer = sock.recv(100)
    except (ConnectionResetError, BrokenPipeError):
        answer = b""
    except OSError as error:
        if error.errno != errno.ENOTCONN:  # shutdown() after a reset
            raise
        answer = b""
    if attack == "decline":
        sys.exit(0 if answer == b"hello" else f"plain TCP did not go on: {answer!r}")
    sys.exit(f"{attack}: the server answered {answer!r}" if answer else 0)


main()
