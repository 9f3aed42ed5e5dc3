#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Send datagrams to UDP 4791, as an attacker who knows everything about the packets of two hosts, but is not smcrd.

  roce_stranger.py raw SEED COUNT
        As root of a host: listen to the packets of the host's smcrd, and send forged ones with their addresses,
        queue pairs, PSNs and rkeys, from another UDP port.
  roce_stranger.py user UID SOURCE ADDRESS QPNS SEED COUNT
        As the user UID of another host, from its own address, also from port 4791. QPNS: "1,2,3".
  roce_stranger.py refused UID ADDRESS
        As the user UID of a host where smcrd runs: every attempt to send must fail.

The last line is "sent N". Exits with 0, or prints what is wrong and exits with 1.
"""
import os
import random
import select
import socket
import struct
import sys
import time
import zlib

PORT = 4791
SEND_ONLY, WRITE_FIRST, WRITE_ONLY, READ, READ_RESPONSE, ACK, CNP = 0x04, 0x06, 0x0A, 0x0C, 0x10, 0x11, 0x81
COMPARE_AND_SWAP, SEND_INVALIDATE = 0x13, 0x17
ETH_P_ALL, PACKET_OUTGOING = 0x0003, 4
HEARD_MAX = 1000  # packets at a time
PATIENCE_S = 60  # until the first packet that smcrd sends; packets of others may come in any number meanwhile
rng = random.Random()


def icrc(source, target, sport, body):
    """The ICRC of a packet with identification 0 and do-not-fragment."""
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 20 + 8 + len(body) + 4, 0, 0x4000, 0xFF, 17, 0xFFFF,
                     socket.inet_aton(source), socket.inet_aton(target))  # fmt: skip
    udp = struct.pack(">HHHH", sport, PORT, 8 + len(body) + 4, 0xFFFF)
    masked = bytearray(body)
    masked[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + bytes(masked)))


def body(opcode, qpn, psn, rest):
    return struct.pack(">BBHII", opcode, 0, 0xFFFF, qpn, 0x80000000 | psn & 0xFFFFFF) + rest


class Known:
    """What the attacker knows about a queue pair: its next PSN, and where it has written."""

    def __init__(self):
        self.psn = 0
        self.reth = [struct.pack(">QII", 0x700000000000, 0x12345678, 64)]


def learn(known, packet):
    """Learn from an IP packet with a header of 20 bytes; queue pairs are kept by (source, target, queue pair)."""
    data = packet[28:]
    if len(data) < 16 or packet[9] != 17 or packet[22:24] != struct.pack(">H", PORT):
        return
    qpn, psn = struct.unpack(">II", data[4:12])
    flow = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20]), qpn & 0xFFFFFF
    pair = known.setdefault(flow, Known())
    pair.psn = psn & 0xFFFFFF
    if data[0] in (WRITE_FIRST, WRITE_ONLY):
        pair.reth = (pair.reth + [data[12:28]])[-20:]


def write_to(pair):
    """A RETH with the address of a genuine WRITE, or one near it."""
    addr, rkey, _ = struct.unpack(">QII", rng.choice(pair.reth))
    length = rng.choice((64, 8, 1000))
    addr += rng.choice((0, 0, rng.randrange(-4096, 4096), rng.randrange(1 << 20)))
    return struct.pack(">QII", addr & (1 << 64) - 1, rkey, length) + bytes(length)


def cdc():
    """A CDC message that says that the peer is gone, or that much data have come."""
    return (bytes([0xFE, 44]) + rng.randbytes(2) + rng.randbytes(4) + rng.randbytes(16)
            + bytes([rng.choice((0, 0x80)), rng.choice((0x20, 0x40, 0xC0, 0))]) + bytes(18))  # fmt: skip


def llc():
    return bytes([rng.choice((1, 2, 4, 6, 7, 9, 0x22, 0x24)), 44]) + rng.randbytes(42)


def forged(qpn, pair):
    psn = pair.psn + rng.choice((1, 1, 1, 2, rng.randrange(300), -rng.randrange(300), rng.randrange(1 << 24)))
    kind = rng.randrange(13)
    if kind < 4:
        return body(WRITE_ONLY, qpn, psn, write_to(pair))
    if kind < 6:
        return body(SEND_ONLY, qpn, psn, cdc())
    if kind < 7:
        return body(SEND_ONLY, qpn, psn, llc())
    if kind < 9:  # ACK, or NAK of some kind
        return body(ACK, qpn, psn, struct.pack(">I", rng.choice((0x1F, 0x60, 0x61, 0x62, 0x63, 0x21)) << 24 | psn & 0xFFFFFF))
    if kind < 10:
        return body(CNP, qpn, 0, bytes(16))
    return body(*rdma(qpn, psn, rng.choice(pair.reth)[:16]))


def rdma(qpn, psn, reth):
    """What SMC-R never asks for, with the address and the key of a genuine WRITE."""
    opcode = rng.choice((READ, READ_RESPONSE, COMPARE_AND_SWAP, SEND_INVALIDATE))
    rest = {READ: reth, READ_RESPONSE: bytes([0x1F, 0, 0, 0]) + rng.randbytes(64),
            COMPARE_AND_SWAP: reth[:12] + rng.randbytes(16), SEND_INVALIDATE: reth[8:12] + cdc()}  # fmt: skip
    return opcode, qpn, psn, rest[opcode]


def listen(listening, known, wait):
    """Learn from the packets that wait, but not for ever: on a busy machine they may come faster than this goes."""
    for _ in range(HEARD_MAX):
        if not select.select([listening], [], [], wait)[0]:
            break
        packet, where = listening.recvfrom(65536)
        if where[2] == PACKET_OUTGOING:
            learn(known, packet)
        wait = 0


def raw(seed, count):
    rng.seed(int(seed))
    listening = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    known = {}
    for i in range(int(count)):
        if i % 20 == 0:
            listen(listening, known, 0)
        patience = time.monotonic() + PATIENCE_S
        while not known and time.monotonic() < patience:
            listen(listening, known, 1)
        if not known:
            sys.exit(f"roce_stranger: smcrd has sent no RoCE packet for {PATIENCE_S} s: is there traffic over SMC-R?")
        source, target, qpn = flow = rng.choice(list(known))
        data = forged(qpn, known[flow])
        sport = rng.choice((PORT - 1, PORT + 1, 49152, rng.randrange(1024, PORT)))
        udp = struct.pack(">HHHH", sport, PORT, 8 + len(data) + 4, 0) + data + icrc(source, target, sport, data)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0,
                         socket.inet_aton(source), socket.inet_aton(target))  # fmt: skip
        sender.sendto(ip + udp, (target, 0))
    print(f"sent {count}")


def become(uid):
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))


def user(uid, source, target, qpns, seed, count):
    become(uid)
    rng.seed(int(seed))
    known = {int(qpn): Known() for qpn in qpns.split(",")}
    socks = []
    for port in (PORT, 0, 0):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER = DO: identification 0
        sock.bind((source, port))
        socks.append(sock)
    for _ in range(int(count)):
        sock = rng.choice(socks)
        qpn = rng.choice(list(known))
        data = forged(qpn, known[qpn])
        sock.sendto(data + icrc(source, target, sock.getsockname()[1], data), (target, PORT))
    print(f"sent {count}")


def refused(uid, target):
    become(uid)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for attempt in (lambda: sock.sendto(bytes(60), (target, PORT)), lambda: sock.connect((target, PORT)),
                    lambda: sock.bind(("", PORT))):  # fmt: skip
        try:
            attempt()
        except PermissionError:
            continue
        sys.exit("a user of a host where smcrd runs has got to UDP port 4791")
    print("sent 0")


if __name__ == "__main__":
    {"raw": raw, "user": user, "refused": refused}[sys.argv[1]](*sys.argv[2:])
