#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A TCP proxy for one connection. It spoils the bytes to the client once, at byte 100003, or resets both connections.

    bad_proxy.py LISTEN_ADDRESS PORT ADDRESS PORT none|lose|double|flip|truncate|reset
"""
import select
import socket
import struct
import sys

AT = 100003


def spoil(how, data):
    if how == "lose":
        return data[5000:]
    if how == "double":
        return data[:700] + data
    if how == "flip":
        return bytes([data[0] ^ 1]) + data[1:]
    return data


def main():
    own, own_port, addr, port, how = sys.argv[1:]
    listener = socket.create_server((own, int(own_port)))
    client, _ = listener.accept()
    server = socket.create_connection((addr, int(port)))
    start = b""  # collected until there is enough to spoil
    spoiled = False
    while True:
        ready = select.select([client, server], [], [])[0]
        if client in ready:
            data = client.recv(65536)
            if not data:
                break
            server.sendall(data)
        if server in ready:
            start += server.recv(65536)
            if how == "reset" and len(start) > AT:
                for sock in client, server:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if not spoiled and len(start) > AT + 10000:
                start = start[:AT] + spoil(how, start[AT:])
                spoiled = True
            if spoiled:
                client.sendall(start)
                start = b""
    server.shutdown(socket.SHUT_WR)
    rest = start  # the stream ended before there was enough to spoil
    while data := server.recv(65536):
        rest += data
    client.sendall(rest[:-3] if how == "truncate" else rest)


main()
