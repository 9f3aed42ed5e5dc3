#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A tool that asks smcrd without end: it sends the same request on many sessions, again after each reply.

  ask_flood.py SOCKET UID SESSIONS [METHOD]

It becomes the user UID, without further groups. Without METHOD it only greets, and keeps the sessions. With
event.wait each session waits for events later than those that it has seen. A session that smcrd refuses or
ends is not opened again. "ready N" on standard output tells that it has tried all sessions, and how many are
open. It answers each line on standard input with a line "sessions N replies N rows N bytes N last N": sessions
open now, replies so far, the most rows and bytes of one reply, and the last event that every session has seen.
If sessions were refused or ended, the reasons follow. It ends at the end of its input.
"""
import json
import os
import resource
import selectors
import socket
import struct
import sys

HEADER = struct.Struct(">HBBI")
MAGIC, FORMAT = 0x534D, 1
HELLO, ERROR, CONTROL, CONTROL_REPLY = 1, 2, 9, 10


def frame(kind, payload):
    return HEADER.pack(MAGIC, FORMAT, kind, len(payload)) + payload


class Flood:
    def __init__(self, path, sessions, method):
        self.selector = selectors.DefaultSelector()
        self.method, self.places = method, {}
        self.request = frame(CONTROL, json.dumps({"method": method}).encode()) if method else b""
        self.open = self.replies = self.rows = self.bytes = 0
        self.why = set()
        for _ in range(sessions):
            self.connect(path)

    def connect(self, path):
        session = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            session.connect(path)
            session.sendall(frame(HELLO, struct.pack(">HH", 1, 1)) + self.request)
        except OSError as error:  # what smcrd has sent before it hung up can still be read
            self.why.add(error.strerror)
        self.open += 1
        self.selector.register(session, selectors.EVENT_READ, bytearray())

    def receive(self, session, buffer):
        try:
            data = session.recv(1 << 18)
        except OSError:
            data = b""
        buffer += data
        while len(buffer) >= HEADER.size:
            _, _, kind, length = HEADER.unpack_from(buffer)
            if len(buffer) < HEADER.size + length:
                break
            payload = bytes(buffer[HEADER.size : HEADER.size + length])
            del buffer[: HEADER.size + length]
            self.take(session, kind, payload)
        if not data:
            self.selector.unregister(session)
            session.close()
            self.open -= 1

    def take(self, session, kind, payload):
        if kind == ERROR:
            self.why.add(payload[4:].decode())
        if kind != CONTROL_REPLY:
            return
        reply = json.loads(payload)
        if "error" in reply:
            self.why.add(reply["error"]["text"])
        result = reply.get("result")
        lists = result.values() if isinstance(result, dict) else [result]
        self.replies += 1
        self.rows = max(self.rows, sum(len(rows) for rows in lists if isinstance(rows, list)))
        self.bytes = max(self.bytes, len(payload))
        request = self.request
        if self.method == "event.wait":
            self.places[session] = int(reply["next"].split(":")[1])
            params = {"after": reply["next"]}
            request = frame(CONTROL, json.dumps({"method": self.method, "params": params}).encode())
        try:
            session.sendall(request)
        except OSError:
            pass  # the next recv() reports the error

    def run(self, until):
        """Serve the sessions until a line comes; with None, until nothing has come for a moment."""
        while True:
            events = self.selector.select(None if until else 0.2)
            if not events:
                return ""
            for key, _ in events:
                if key.fileobj is sys.stdin:
                    return sys.stdin.readline()
                self.receive(key.fileobj, key.data)

    def tell(self):
        last = min(self.places.values(), default=0) if len(self.places) >= self.open else 0
        text = f"sessions {self.open} replies {self.replies} rows {self.rows} bytes {self.bytes} last {last}"
        print(" ".join([text, *sorted(self.why)]), flush=True)


def main():
    path, uid, sessions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], sessions + 64), limits[1]))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    flood = Flood(path, sessions, sys.argv[4] if len(sys.argv) > 4 else None)
    if not flood.request:
        flood.run(None)
    print(f"ready {flood.open}", flush=True)
    flood.selector.register(sys.stdin, selectors.EVENT_READ)
    while flood.run(True):
        flood.tell()


if __name__ == "__main__":
    main()
