#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that opens many connections and breaks them off in masses, by SO_LINGER or by ending.

  linger_flood.py ADDRESS PORT CONNECTIONS ROUNDS SEED

To be run by smcr-run as the attacker, against an echo server. In each round so many connections are opened, bytes are
sent on each and not read, and then all are closed at once: with a linger time of 0, which resets them, with one of -1,
a few with one of a second, without any, or by the end of the process that has them. The last line is "closed N failed N":
connections that were closed, and attempts that were refused.
"""
import os
import random
import socket
import struct
import sys

CONNECT_S = 60
LINGERS = ((1, 0), (1, 0), (1, -1), (0, 0))
PATIENT = 3  # of each round: their close() may take a second


def open_one(where, rng):
    sock = socket.create_connection(where, CONNECT_S)
    sock.setblocking(False)
    try:
        sock.send(rng.randbytes(rng.randrange(1, 60000)))
    except OSError:
        pass  # the connection has failed: it is closed like the others
    return sock


def close_all(socks, rng):
    how = rng.choice(LINGERS)
    for number, sock in enumerate(socks):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", *(how if number >= PATIENT else (1, 1))))
    for sock in socks:
        try:
            sock.close()
        except OSError:
            pass


def one_round(where, connections, rng):
    socks, failed = [], 0
    for _ in range(connections):
        try:
            socks.append(open_one(where, rng))
        except OSError:
            failed += 1
    if rng.random() < 0.8:
        close_all(socks, rng)
    return len(socks), failed


def main():
    where, connections, rounds, seed = (sys.argv[1], int(sys.argv[2])), *map(int, sys.argv[3:])
    closed = failed = 0
    for number in range(rounds):
        inner, outer = os.pipe()
        pid = os.fork()
        if pid == 0:  # what a round leaves open is closed with its process
            counts = one_round(where, connections, random.Random(seed + number))
            os.write(outer, struct.pack("ii", *counts))
            os._exit(0)
        os.close(outer)
        counts = struct.unpack("ii", os.read(inner, 8) or bytes(8))
        os.close(inner)
        os.waitpid(pid, 0)
        closed += counts[0]
        failed += counts[1]
    print(f"closed {closed} failed {failed}")


main()
