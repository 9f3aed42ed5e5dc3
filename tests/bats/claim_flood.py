#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program that claims far more listeners than it needs: one after the other, and then many at a time.

  claim_flood.py UID BRIEF HELD ADDRESS PORT

Becomes the user UID, without further groups. Listens on BRIEF loopback addresses one after the other, then on HELD
at a time, and then on ADDRESS and PORT, and claims each listener. Then it prints "ready". For the first connection
to ADDRESS and PORT it prints the outcome of the negotiation and the reason (IPC_SO_NEGOTIATED, IPC_SO_REASON). It
keeps that connection until its input ends.
"""
import os
import resource
import socket
import sys

SOL_SMCR, SO_CLAIM, SO_NEGOTIATED, SO_REASON = 0x534D4352, 1, 2, 3


def listener(address, port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(SOL_SMCR, SO_CLAIM, 1)
    sock.bind((address, port))
    sock.listen()
    return sock


def loopback(number):
    return f"127.1.{number >> 8 & 255}.{number & 255}"


def main():
    uid, brief, held = map(int, sys.argv[1:4])
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 100, held + 100))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    for number in range(brief):
        listener(loopback(number), 20001).close()
    kept = [listener(loopback(number), 20002) for number in range(held)]
    last = listener(sys.argv[4], int(sys.argv[5]))
    print("ready", flush=True)
    sock, _ = last.accept()
    print(sock.getsockopt(SOL_SMCR, SO_NEGOTIATED), f"{sock.getsockopt(SOL_SMCR, SO_REASON):08x}", flush=True)
    sys.stdin.read()
    del kept


main()
