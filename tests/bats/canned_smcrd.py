#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""canned_smcrd.py SOCKET REPLIES LOG: a daemon that answers tools from a file.

REPLIES is JSON: {METHOD: [REPLY, ..]}. Requests of a method get its replies one after the other, and then the last
one again and again. A reply without "schema" is a result; {"seconds": S, "reply": REPLY} comes after that time.
null: no reply, the tool waits; "end": the daemon ends. Requests are written to LOG, a line each.
"""

import json
import os
import socket
import struct
import sys
import threading
import time

HELLO, CONTROL, CONTROL_REPLY = 1, 9, 10


def receive(conn, length):
    data = b""
    while len(data) < length:
        part = conn.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def send(conn, kind, payload):
    conn.sendall(struct.pack("!2sBBI", b"SM", 1, kind, len(payload)) + payload)


class Canned:
    def __init__(self, replies, log):
        self.replies, self.log, self.lock = replies, log, threading.Lock()

    def reply(self, request):
        with self.lock:
            print(json.dumps(request), file=self.log, flush=True)
            replies = self.replies.get(request["method"], [])
            reply = replies.pop(0) if len(replies) > 1 else (replies or ["unknown"])[0]
        if reply == "unknown":
            reply = {"schema": 1, "error": {"code": "unknown-method", "errno": 95,
                                            "text": "no method " + request["method"]}}
        if isinstance(reply, dict) and "seconds" in reply:
            time.sleep(reply["seconds"])
            reply = reply["reply"]
        if reply == "end":
            os._exit(0)
        if reply is not None and not (isinstance(reply, dict) and "schema" in reply):
            reply = {"schema": 1, "result": reply}
        return reply

    def serve(self, conn):
        try:
            while True:
                _, _, kind, length = struct.unpack("!2sBBI", receive(conn, 8))
                payload = receive(conn, length)
                if kind == HELLO:
                    send(conn, HELLO, struct.pack("!HH", 1, 1))
                    continue
                reply = self.reply(json.loads(payload))
                if reply is not None:
                    send(conn, CONTROL_REPLY, json.dumps(reply).encode())
        except (EOFError, OSError):
            conn.close()


def main():
    path, replies, log = sys.argv[1:]
    with open(replies, encoding="utf-8") as file:
        canned = Canned(json.load(file), open(log, "a", encoding="utf-8"))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=canned.serve, args=(conn,), daemon=True).start()


main()
