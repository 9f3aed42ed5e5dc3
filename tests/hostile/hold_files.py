#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user who makes smcrd hold as many files as it lets him.

  hold_files.py SOCKET UID SESSIONS

It becomes the user UID, without further groups, and opens up to so many sessions. On each it begins a request that comes
with a descriptor, and does not go on; a session that smcrd ends is opened again. "ready N" on standard output tells how many
sessions it got at first. It ends when it is killed.
"""
import os
import resource
import socket
import struct
import sys
import time

HEADER = struct.Struct(">HBBI")
MAGIC, FORMAT = 0x534D, 1
HELLO, HANDOVER = 1, 3


def begin(path, mine):
    session = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    session.settimeout(10)
    session.connect(path)
    session.sendall(HEADER.pack(MAGIC, FORMAT, HELLO, 4) + struct.pack(">HH", 1, 1))
    reply = session.recv(HEADER.size, socket.MSG_WAITALL)
    if len(reply) < HEADER.size or HEADER.unpack(reply)[2] != HELLO:
        raise ConnectionRefusedError
    socket.send_fds(session, [HEADER.pack(MAGIC, FORMAT, HANDOVER, 24) + b"\3"], [mine.fileno()])
    return session


def main():
    path, uid, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], most + 64), limits[1]))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    mine = socket.socket()
    sessions, told = [], False
    while True:
        while len(sessions) < most:
            try:
                sessions.append(begin(path, mine))
            except OSError:
                break
        if not told:
            print(f"ready {len(sessions)}", flush=True)
            told = True
        time.sleep(0.2)  # those that smcrd has ended can be read from
        for session in sessions:
            session.setblocking(False)
        sessions = [session for session in sessions if is_open(session)]


def is_open(session):
    try:
        while session.recv(4096):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    session.close()
    return False


main()
