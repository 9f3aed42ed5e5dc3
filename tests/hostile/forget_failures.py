#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make smcrd forget again and again that SMC-R with a peer has failed, so that smcrd tries again at once.

  forget_failures.py SOCKET PEER-ADDRESS

Runs as root until it is killed.
"""
import json
import socket
import struct
import sys
import time


def frame(kind, payload):
    return struct.pack(">HBBI", 0x534D, 1, kind, len(payload)) + payload


def main():
    session = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    session.connect(sys.argv[1])
    request = frame(9, json.dumps({"method": "policy.forget", "params": {"peer": sys.argv[2]}}).encode())
    session.sendall(frame(1, struct.pack(">HH", 1, 1)) + request)
    while reply := session.recv(65536):
        if b'"error"' in reply and b'"not-found"' not in reply:
            sys.exit(reply)
        time.sleep(0.005)  # leave time to others
        session.sendall(request)
    sys.exit("smcrd has ended the session")


if __name__ == "__main__":
    main()
