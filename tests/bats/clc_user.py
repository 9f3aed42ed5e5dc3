#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with claimed TCP sockets that sends CLC itself. It carries out commands step by step (talk_start in
net.bash), and answers each line with "ok", a word, or the name of the error.

  user UID              become this user
  connect ADDRESS PORT  connect a claimed socket; the option must have been sent both ways
  listen ADDRESS PORT   listen on a claimed socket
  accept                accept a connection; the option must have been sent both ways
  propose, confirm      send such a message on the last connection
  urgent                send an urgent byte, and a Proposal behind it
  end-group             send a Decline that says "out of sync"
  hello [TEXT]          send application data
  heard                 tell what has arrived: "nothing", "clc", "end", or "data"
  wait                  wait until something has arrived
  hand-over SOCKET [KIND]  hand the last connection over to the smcrd at SOCKET, but keep a descriptor
"""
import array
import errno
import os
import select
import socket
import struct
import sys

EYE = b"\xe2\xd4\xc3\xd9"
SOL_SMCR, SO_CLAIM, SO_NEGOTIATED = 0x534D4352, 1, 2
HELLO, HANDOVER, RESULT = 1, 3, 4
listener = connection = session = None


def message(kind, body, flags=0):
    return EYE + struct.pack(">BHB", kind, 12 + len(body), 0x10 | flags) + body + EYE


def user(uid):
    os.setgroups([])
    os.setgid(int(uid))
    os.setuid(int(uid))


def promised(sock):
    global connection
    connection = sock
    return None if sock.getsockopt(SOL_SMCR, SO_NEGOTIATED) == 1 else "the option was not negotiated"


def connect(address, port):
    sock = socket.socket()
    sock.setsockopt(SOL_SMCR, SO_CLAIM, 1)
    sock.connect((address, int(port)))
    return promised(sock)


def listen(address, port):
    global listener
    listener = socket.socket()
    listener.setsockopt(SOL_SMCR, SO_CLAIM, 1)
    listener.bind((address, int(port)))
    listener.listen(5)


def accept():
    return promised(listener.accept()[0])


def propose():
    body = bytes([2, 9]) + bytes(22) + b"\x02" + bytes(5) + struct.pack(">H", 0)
    connection.sendall(message(1, body + socket.inet_aton("10.77.0.0") + bytes([24, 0, 0, 0])))


def urgent():
    connection.send(b"X", socket.MSG_OOB)
    propose()


def confirm():
    connection.sendall(message(3, bytes(56)))


def end_group():
    connection.sendall(message(4, bytes(16), 8))


def hello(text="hello"):
    connection.sendall(text.encode())


def heard():
    try:
        data = connection.recv(1000, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return "nothing"
    if not data:
        return "end"
    return "clc" if data[:3] == EYE[:3] else "data"


def wait():
    select.select([connection], [], [])


def hand_over(path, kind="1"):
    global session
    session = socket.socket(socket.AF_UNIX)
    session.connect(path)
    frames = struct.pack(">HBBIHH", 0x534D, 1, HELLO, 4, 1, 1) + struct.pack(">HBBI", 0x534D, 1, HANDOVER, 3)
    session.sendmsg([frames + bytes([int(kind), 0, 0])],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))])  # fmt: skip


COMMANDS = {
    "user": user, "connect": connect, "listen": listen, "accept": accept, "propose": propose, "urgent": urgent, "confirm": confirm,
    "end-group": end_group, "hello": hello, "heard": heard, "wait": wait, "hand-over": hand_over,
}  # fmt: skip

for line in sys.stdin:
    command, *arguments = line.split()
    try:
        print(COMMANDS[command](*arguments) or "ok", flush=True)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), flush=True)
