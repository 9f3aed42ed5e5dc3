#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make the seed corpora of the fuzz targets from the captures.

usage: fuzz-seeds.py DIRECTORY

Writes DIRECTORY/fuzz_NAME/... with one file for each distinct message: TCP options, CLC messages, LLC
and CDC messages, messages of the connection manager, of SMB Direct, of SMB2 and of RPC-over-RDMA, RoCE packets
(behind two bytes that fuzz_roce reads as IPv4 identification), frames of the daemon's socket, steps of programs at that socket, HTTP
requests for metrics, and policy rules.
"""
import glob
import gzip
import hashlib
import os
import struct
import sys

ROCE_PORT = 4791
CLC_PORT = 5001
CLC_MAGIC = bytes.fromhex("E2D4C3D9")
SEND_ONLY, SEND_ONLY_INVALIDATE, UD_SEND_ONLY = 0x04, 0x17, 0x64
BTH_LEN, IETH_LEN, DETH_LEN, ICRC_LEN = 12, 4, 8, 4
ROCE_SEEDS_PER_CAPTURE = 200


def frames(path):
    """IPv4 packets of an Ethernet capture in little-endian pcap format."""
    data = gzip.open(path).read()
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        sys.exit(f"{path}: not a little-endian pcap file")
    at = 24
    while at + 16 <= len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        if len(frame) >= 34 and frame[12:14] == b"\x08\x00":
            yield frame[14:]


class Seeds:
    """Distinct inputs, a directory for each target."""

    def __init__(self, top):
        self.top = top

    def add(self, target, data):
        directory = os.path.join(self.top, target)
        os.makedirs(directory, exist_ok=True)
        name = hashlib.sha1(data).hexdigest()[:16]
        with open(os.path.join(directory, name), "wb") as out:
            out.write(data)


def add_tcp(seeds, tcp):
    header = 4 * (tcp[12] >> 4)
    ports = struct.unpack_from("!HH", tcp)
    if header > 20:
        seeds.add("fuzz_tcpopt", tcp[20:header])
    if CLC_PORT in ports and tcp[header : header + 4] == CLC_MAGIC:
        seeds.add("fuzz_clc", tcp[header:])


def add_rpcrdma(seeds, roce):
    head = BTH_LEN + (IETH_LEN if roce[0] == SEND_ONLY_INVALIDATE else 0)
    if roce[0] in (SEND_ONLY, SEND_ONLY_INVALIDATE):
        seeds.add("fuzz_rpcrdma", roce[head:-ICRC_LEN])


def add_roce(seeds, roce, count, is_smcr):
    if count < ROCE_SEEDS_PER_CAPTURE:
        seeds.add("fuzz_roce", b"\x12\x34" + roce)
    if roce[0] == UD_SEND_ONLY:
        seeds.add("fuzz_ibcm", roce[BTH_LEN + DETH_LEN : -ICRC_LEN])
    if roce[0] != SEND_ONLY or not is_smcr:
        return
    message = roce[BTH_LEN:-ICRC_LEN]
    if message[0] != 0xFE:
        seeds.add("fuzz_llc_v2" if message[0] & 0xF0 == 0x20 else "fuzz_llc", message)
    elif count < ROCE_SEEDS_PER_CAPTURE:
        seeds.add("fuzz_cdc", message)


def messages_of_smb_direct(path):
    """Yield (is from the server, message) for each SEND."""
    for ip in frames(path):
        roce = ip[28 : struct.unpack_from("!H", ip, 2)[0]]
        if ip[9] != 17 or roce[0] not in (SEND_ONLY, SEND_ONLY_INVALIDATE):
            continue
        head = BTH_LEN + (IETH_LEN if roce[0] == SEND_ONLY_INVALIDATE else 0)
        yield ip[12:16] == bytes([10, 0, 0, 1]), roce[head : len(roce) - ICRC_LEN - (roce[1] >> 4 & 3)]


def add_smb_direct(seeds, path):
    """What each side gets, as steps of fuzz_smbdirect; what is in it, as messages of fuzz_smb2."""
    both = list(messages_of_smb_direct(path))
    for role in (0, 1):
        steps = [b"\x06" + struct.pack("<H", len(m)) + m for server, m in both if server == bool(role)]
        for num in (1, 2, 5, 20, len(steps)):
            seeds.add("fuzz_smbdirect", bytes([64 | role]) + b"".join(steps[:num]))
            seeds.add("fuzz_smbdirect", bytes([64 | role]) + b"\x19\x04".join(steps[:num]))
    for first in (0, 2):
        smb = [
            bytes([first | server]) + struct.pack("<H", len(m) - 24) + m[24:]
            for server, m in both
            if len(m) > 32
        ]
        for at in range(0, len(smb), 6):
            seeds.add("fuzz_smb2", b"".join(smb[at : at + 12]))


def add_captures(seeds, paths):
    for path in paths:
        roce_count = 0
        name = os.path.basename(path)
        is_rpcrdma = "-nfs-" in name
        is_smcr = not any(word in name for word in ("-cm-", "-smb-", "-nfs-"))
        if "-smb-" in name:
            add_smb_direct(seeds, path)
        for ip in frames(path):
            header = 4 * (ip[0] & 15)
            packet = ip[header : struct.unpack_from("!H", ip, 2)[0]]
            if ip[9] == 6:
                add_tcp(seeds, packet)
            elif ip[9] == 17 and struct.unpack_from("!H", packet, 2)[0] == ROCE_PORT:
                add_roce(seeds, packet[8:], roce_count, is_smcr)
                if is_rpcrdma:
                    add_rpcrdma(seeds, packet[8:])
                roce_count += 1


def add_ipc(seeds):
    payloads = [
        (1, struct.pack("!HH", 1, 1)),
        (2, struct.pack("!i", 13) + b"not allowed"),
        (3, bytes([1, 1, 0])),
        (3, bytes([2, 0, 4]) + bytes.fromhex("1389 0A000001")),
        (3, bytes([2, 0, 6]) + bytes.fromhex("1389 FE80000000000000 0000000000000001 00000007")),
        (4, struct.pack("!BiI", 1, 0, 0)),
        (4, struct.pack("!BiI", 2, 0, 0x03070000)),
        (4, struct.pack("!BiI", 3, 111, 0)),
        (5, bytes([1])),
        (6, struct.pack("!BBiI", 3, 1, 0, 0x03010000)),
        (7, struct.pack("!BiiiH", 1, 6, 1, 0, 4) + bytes(4)),
        (11, bytes([1])),
        (12, struct.pack("!BBiIIIBQQIIB", 2, 3, 0, 0, 0, 7, 2, 258, 1 << 32, 65536, 32768, 6) + b"roce_0"),
        (12, struct.pack("!BBiIIIBQQIIB", 3, 12, 104, 0x05000000, 0x03070000, 0, 0, 0, 0, 0, 0, 0)),
        (8, struct.pack("!BiiiH", 2, 6, 1, 22, 0)),
        (13, bytes([1])),
        (14, struct.pack("!BIIIIII", 0, 0x21000, 0x1004, 0xFFFC, 0x11000, 0x10000, 768)),
        (14, struct.pack("!BIIIIII", 3, 0, 0, 0, 0, 0, 0)),
        (9, b'{"method":"info"}'),
    ]
    for kind, payload in payloads:
        seeds.add("fuzz_ipc", struct.pack("!2sBBI", b"SM", 1, kind, len(payload)) + payload)
    for name in (
        "smcr-pair:000000001234abcd:10.0.0.1:5001:10.0.0.2:40000",
        "smcr-pair:ffffffffffffffff:fe800000000000070000000000000001:80:"
        "fe800000000000070000000000000002:65535",
    ):
        seeds.add("fuzz_ipc", struct.pack("=H", 1) + b"\0" + name.encode())


def add_steps(seeds, target, *steps):
    """Add a list of steps, in the form of tests/fuzz/records.h: what, who, small, large."""
    seeds.add(target, b"".join(struct.pack("=BBHI", *step) for step in steps))


def add_sessions(seeds):
    """Steps of tests/fuzz/fuzz_session.c."""
    opened = ((0, 0, 0, 0), (2, 0, 0, 0))
    read = (7, 0, 0, 0)
    for kind, descriptor in ((0, 0), (1, 2), (2, 0)):
        handover = (2, 0x10, descriptor, kind)
        # Then the pair end is the third descriptor that the program holds.
        for request in (0x40, 0x60, 0x80, 0xA0):
            add_steps(seeds, "fuzz_session", *opened, handover, read, (2, request, 4, 2), read)
        memory = (2, 0xA0, 4, 2)
        use = ((8, 2, 0, 5000), (8, 2, 1 << 4, 9000), (10, 3, 16, 100), (15, 0, 3, 0))
        add_steps(seeds, "fuzz_session", *opened, handover, read, memory, read, *use, (8, 2, 3 << 4, 0))
        for script in (0, 2, 3, 6):
            add_steps(seeds, "fuzz_session", (12, 0, script, 0), *opened, handover, read, *use,
                      (11, 0, 2, 0), *use, (14, 0, 0, 1000000))
        for fallback in (2, 6, 0x10 | 2):
            add_steps(seeds, "fuzz_session", (12, 0, fallback, 0), *opened, handover, read,
                      (2, 0x40, 4, 1 << 16 | 2), read)
        add_steps(seeds, "fuzz_session", (12, 0, 0, 0), *opened, handover, read, (2, 0x80, 4, 1 << 16 | 2),
                  (8, 0, 1, 28 << 8 | 3), (8, 0, 3, 28 << 8 | 3), (11, 0, 1, 0), read, (15, 0, 0x77, 0))
        for name in (2, 9, 13, 1):
            for level in range(2):
                add_steps(seeds, "fuzz_session", *opened, handover, read,
                          *((2, 0x60, 4 | level << 6, 4 << 16 | name << 8 | op << 4 | 2) for op in range(3)), read)
    for first in range(8):
        add_steps(seeds, "fuzz_session", *opened, (2, 0xC0, 0, first | 20 << 9), read, (13, 0, 0x100, 0), read)


def add_rules(seeds):
    for rule in (
        "deny port 22",
        "deny program /usr/bin/ssh uid 1000",
        "allow peer 192.0.2.0/24 port 8000-8999",
        "allow local 2001:db8::/32 peer ::1",
        "deny all",
    ):
        seeds.add("fuzz_rules", rule.encode())


def add_scrape(seeds):
    for line in (
        "GET /metrics HTTP/1.1",
        "HEAD /metrics?name=x HTTP/1.0",
        "POST / HTTP/1.1",
    ):
        seeds.add("fuzz_scrape", line.encode() + b"\r\nHost: smcrd\r\n\r\n")
        seeds.add("fuzz_scrape", line.encode() + b"\n\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    seeds = Seeds(sys.argv[1])
    captures = os.path.join(os.path.dirname(__file__), "../tests/captures/*.pcap.gz")
    add_captures(seeds, sorted(glob.glob(captures)))
    add_ipc(seeds)
    add_sessions(seeds)
    add_rules(seeds)
    add_scrape(seeds)


main()
