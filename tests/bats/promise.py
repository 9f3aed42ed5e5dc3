#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with plain sockets, and a peer that speaks CLC by hand. It carries out commands step by step
(talk_start in net.bash), and answers each line with one line: "ok ..", or the name of the error.

  listen ADDRESS PORT       accept                    connect ADDRESS PORT
  send TEXT                 receive TEXT              close
  keep                      leave the connection open while others follow; release closes those that were kept
  swap                      go on with the connection that was kept last
  names                     addresses of the connection, as the program sees them
  notices 1|0               the listener waits for what the kernel tells (SO_TIMESTAMPNS), or does not
  relisten                  listen() again
  option NAME VALUE         set a TCP option of the connection and read it back
  status                    SO_ERROR
  wait-for-end              until the connection has an error
  stands-still              does smcrd stand still?
  leave N                   so many descriptors can still be opened; -1: as many as before
  chroot DIRECTORY          setuid UID

As a peer:
  claim                     the next connection carries the SMC option (without smcr-run)
  propose                   send a CLC Proposal    declined    receive a CLC Decline

accept and connect tell what kind of socket the connection is: "ok tcp" or "ok pair".
"""
import errno
import os
import resource
import select
import socket
import struct
import sys

EYE = b"\xe2\xd4\xc3\xd9"
listener = connection = None
fillers = []
kept = []
claimed = False
before = resource.getrlimit(resource.RLIMIT_NOFILE)
unix_sockets = open("/proc/self/net/unix")  # before chroot()


def kind():
    inode = str(os.fstat(connection.fileno()).st_ino)
    unix_sockets.seek(0)
    return "pair" if any(line.split()[6:7] == [inode] for line in unix_sockets) else "tcp"


def listen(address, port):
    global listener
    listener = socket.create_server((address, int(port)), backlog=64)


def accept():
    global connection
    connection, _ = listener.accept()
    return kind()


def claim():
    global claimed
    claimed = True


def connect(address, port):
    global connection, claimed
    connection = socket.socket()
    if claimed:
        connection.setsockopt(0x534D4352, 1, struct.pack("=i", 1))
    claimed = False
    connection.connect((address, int(port)))
    return kind()


def exactly(count):
    got = b""
    while len(got) < count:
        data = connection.recv(count - len(got))
        if not data:
            return got + b"(end)"
        got += data
    return got


def send(text):
    connection.sendall(text.encode())


def receive(text):
    got = exactly(len(text))
    assert got == text.encode(), got


def close():
    connection.close()


def keep():
    kept.append(connection)


def release():
    while kept:
        kept.pop().close()


def swap():
    global connection
    connection = kept.pop()


def names():
    return "%s:%d %s:%d" % (connection.getsockname() + connection.getpeername())


def notices(on):
    listener.setsockopt(socket.SOL_SOCKET, 35, int(on))  # SO_TIMESTAMPNS


def relisten():
    listener.listen(64)


def option(name, value):
    number = getattr(socket, name)
    connection.setsockopt(socket.IPPROTO_TCP, number, int(value))
    return connection.getsockopt(socket.IPPROTO_TCP, number)


def status():
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def wait_for_end():
    poll = select.poll()
    poll.register(connection, 0)
    assert poll.poll(10000)


def stands_still():
    with socket.socket() as probe:
        return probe.getsockopt(0x534D4352, 5)


def leave(count):
    while fillers:
        os.close(fillers.pop())
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    if int(count) < 0:
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    try:
        while True:
            fillers.append(os.dup(0))
    except OSError:
        pass
    for _ in range(int(count)):
        os.close(fillers.pop())


def propose():
    header = EYE + struct.pack(">BHB", 1, 52, 0x10)
    body = bytes(8 + 16 + 6) + struct.pack(">H4sBHB", 0, bytes([10, 77, 0, 0]), 24, 0, 0)
    connection.sendall(header + body + EYE)


def declined():
    message = exactly(28)
    assert message[:5] == EYE + b"\x04" and message[24:] == EYE, message
    return "%08x" % struct.unpack(">I", message[16:20])


def setuid(uid):
    os.setgid(int(uid))
    os.setuid(int(uid))


def change_root(directory):
    os.chroot(directory)
    os.chdir("/")


COMMANDS = {
    "listen": listen, "accept": accept, "connect": connect, "send": send, "receive": receive,
    "close": close, "names": names, "option": option, "status": status, "leave": leave,
    "propose": propose, "declined": declined, "chroot": change_root, "setuid": setuid,
    "claim": claim, "keep": keep, "release": release,
    "swap": swap, "wait-for-end": wait_for_end, "stands-still": stands_still, "notices": notices, "relisten": relisten,
}  # fmt: skip

for line in sys.stdin:
    command, *arguments = line.split()
    try:
        answer = COMMANDS[command](*arguments)
        print("ok" if answer is None else f"ok {answer}", flush=True)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), flush=True)
    except AssertionError as error:
        print("got", error, flush=True)
