#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A program with UDP sockets that carries out commands step by step (talk_start in net.bash). It answers
each line with "ok", or the name of the error.

  user UID                            become this user
  bind ADDRESS PORT                   bind a new socket of the address's family
  connect ADDRESS PORT                connect a new socket
  twins ADDRESS PORT                  connect two new sockets that share a local port; write uses the first
  again ADDRESS PORT                  connect the same socket to another address
  write                               send a datagram on the socket that was connected last
  write-second                        the same on the second socket of twins
  send ADDRESS PORT                   send a datagram on a new socket
  send-from SOURCE ADDRESS PORT       the same, with the source address in IP_PKTINFO
  send-corked ADDRESS PORT            the same, in two parts
  send-connected ADDRESS PORT         the same, on a socket that is connected to another port
ADDRESS is an IPv4 or IPv6 address; ::ffff:.. is an IPv4 address on an IPv6 socket.
"""
import errno
import os
import socket
import struct
import sys

PAYLOAD = bytes(64)
IP_PKTINFO = 8
connected = None


def new(address):
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def user(uid):
    os.setgid(int(uid))
    os.setuid(int(uid))


def bind(address, port):
    with new(address) as sock:
        sock.bind((address, int(port)))


def connect(address, port):
    global connected
    sock = new(address)
    sock.connect((address, int(port)))
    connected = sock


def twins(address, port):
    global connected
    first, second = new(address), new(address)
    for sock in first, second:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    first.bind(("", 0))
    second.bind(("", first.getsockname()[1]))
    second.connect((address, int(port)))
    first.connect((address, int(port)))
    twins.second = second
    connected = first


def write_second():
    twins.second.send(PAYLOAD)


def again(address, port):
    connected.connect((address, int(port)))


def write():
    connected.send(PAYLOAD)


def send(address, port):
    with new(address) as sock:
        sock.sendto(PAYLOAD, (address, int(port)))


def send_from(source, address, port):
    info = struct.pack("=i4s4s", 0, socket.inet_aton(source), bytes(4))
    with new(address) as sock:
        sock.sendmsg([PAYLOAD], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (address, int(port)))


def send_corked(address, port):
    with new(address) as sock:
        sock.sendto(PAYLOAD, socket.MSG_MORE, (address, int(port)))
        sock.sendto(PAYLOAD, (address, int(port)))


def send_connected(address, port):
    with new(address) as sock:
        sock.connect((address, int(port) + 100))
        sock.sendto(PAYLOAD, (address, int(port)))


COMMANDS = {
    "user": user, "bind": bind, "connect": connect, "twins": twins, "again": again,
    "write": write, "write-second": write_second, "send": send,
    "send-from": send_from, "send-corked": send_corked, "send-connected": send_connected,
}  # fmt: skip

for line in sys.stdin:
    command, *arguments = line.split()
    try:
        COMMANDS[command](*arguments)
        print("ok", flush=True)
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), flush=True)
