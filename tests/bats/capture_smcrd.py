#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""capture_smcrd.py SOCKET MODE: a daemon for one capture.

MODE: flood: the ring is always full, until the tool goes. refuse: the capture does not begin. lose: one
message, while three messages of RNIC 0 and two of RNIC 4 are lost. ends: one message, then the link group ends.
"""

import array
import json
import mmap
import os
import socket
import struct
import sys

HELLO, CONTROL_REPLY = 1, 10
PAGE, LOST_AT, TAKEN_AT = 4096, 16, 256
LINK, MESSAGE, WRITE = 1, 2, 2


def frame(kind, payload):
    return struct.pack("!2sBBI", b"SM", 1, kind, len(payload)) + payload


class Client:
    def __init__(self, conn):
        self.conn, self.data, self.fds = conn, b"", array.array("i")

    def receive(self, length):
        while len(self.data) < length:
            part, control, _, _ = self.conn.recvmsg(65536, socket.CMSG_SPACE(4))
            if not part:
                sys.exit(0)
            self.data += part
            for _, _, fds in control:
                self.fds.frombytes(fds)
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def request(self):
        _, _, _, length = struct.unpack("!2sBBI", self.receive(8))
        return self.receive(length)


def link():
    end = struct.pack("=16s6s2xII", bytes(10) + b"\xff\xff\x0a\0\0\1", bytes(6), 17, 0)
    return (struct.pack("=IIQIBB2x", LINK, 0, 1, 5, 1, 3) + end + end + b"eth0".ljust(64, b"\0") +
            b"10.0.0.2".ljust(48, b"\0"))


def message(length):
    data = bytes(length)
    return struct.pack("=IIQQQQII", MESSAGE, WRITE, 1, 0, 0, 4096, 7, len(data)) + data


class Ring:
    def __init__(self, fd):
        self.memory = mmap.mmap(fd, os.fstat(fd).st_size)
        self.size = len(self.memory) - PAGE
        self.at = 0
        # struct.pack_into() makes them zero first, and the tool would see that
        page = memoryview(self.memory)[:PAGE]
        self.numbers, self.versions = page.cast("Q"), page.cast("I")

    def put(self, record):
        data = struct.pack("=II", len(record), 0) + record + bytes(-len(record) % 8)
        if len(data) > self.size - (self.at - self.numbers[TAKEN_AT // 8]):
            return
        place = self.at % self.size
        first = min(self.size - place, len(data))
        self.memory[PAGE + place:PAGE + place + first] = data[:first]
        self.memory[PAGE:PAGE + len(data) - first] = data[first:]
        self.at += len(data)
        self.numbers[0] = self.at

    def lose(self, rnic, messages):
        self.numbers[LOST_AT // 8 + rnic] = messages

    def begin(self):
        self.versions[2] = 1


def reply(conn, **what):
    conn.sendall(frame(CONTROL_REPLY, json.dumps({"schema": 1, **what}).encode()))


def has_gone(conn):
    try:
        return not conn.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def main():
    path, mode = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    conn, _ = listener.accept()
    client = Client(conn)
    client.request()
    conn.sendall(frame(HELLO, struct.pack("!HH", 1, 1)))
    client.request()
    if mode == "refuse":
        reply(conn, error={"code": "busy", "errno": 16, "text": "busy"})
        return
    ring = Ring(client.fds[0])
    ring.put(link())
    if mode != "flood":
        ring.put(message(1000))
    if mode == "lose":
        ring.lose(0, 3)
        ring.lose(4, 2)
    ring.begin()
    if mode == "ends":
        reply(conn, result={"text": "link group 5 has ended"})
    if mode != "flood":
        conn.recv(1)  # until the tool goes
        return
    record = message(60000)
    while not has_gone(conn):
        ring.put(record)


main()
