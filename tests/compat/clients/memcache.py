#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Talk to memcached in its text protocol; print "NAME VALUE" lines. usage: memcache.py ADDRESS PORT"""
import hashlib
import socket
import sys
import threading

address = (sys.argv[1], int(sys.argv[2]))


class Client:
    def __init__(self):
        self.sock = socket.create_connection(address, timeout=200)
        self.file = self.sock.makefile("rb")

    def ask(self, command, lines=1):
        self.sock.sendall(command)
        return [self.file.readline().strip().decode(errors="replace") for _ in range(lines)]

    def set(self, key, value):
        return self.ask(b"set %s 0 0 %d\r\n" % (key, len(value)) + value + b"\r\n")[0]

    def get(self, key):
        head = self.ask(b"get %s\r\n" % key)[0]
        if not head.startswith("VALUE"):
            return None
        value = self.file.read(int(head.split()[3]) + 2)[:-2]
        assert self.file.readline() == b"END\r\n"
        return value


def value_of(number, size):
    block = hashlib.sha256(b"%d" % number).digest()
    return (block * (size // 32 + 1))[:size]


def worker(number, failed):
    try:
        client = Client()
        for i in range(100):
            key = b"w%d-%d" % (number, i)
            value = value_of(number * 1000 + i, (i * 977) % 60000)
            if client.set(key, value) != "STORED" or client.get(key) != value:
                failed.append(key)
    except OSError as error:
        failed.append(error)


def main():
    client = Client()
    print("version", client.ask(b"version\r\n")[0].split()[0])
    print("error", client.ask(b"nonsense\r\n")[0])
    print("missing", client.get(b"missing"))
    large = value_of(1, 4 * 1024 * 1024 - 1000)
    print("large", client.set(b"large", large), client.get(b"large") == large)
    print("too.large", *client.ask(b"set big 0 0 %d\r\n" % (5 << 20) + bytes(5 << 20) + b"\r\n"))
    client = Client()
    client.sock.sendall(b"".join(b"set p%d 0 0 5\r\nvalue\r\n" % i for i in range(5000)))
    print("pipelined", sum(client.file.readline() == b"STORED\r\n" for _ in range(5000)))
    print("incr", client.set(b"n", b"1"), *[client.ask(b"incr n 5\r\n")[0] for _ in range(4)])
    failed = []
    threads = [threading.Thread(target=worker, args=(n, failed)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("workers", len(failed), *failed[:3])
    many = [Client() for _ in range(30)]
    print("many", sum(c.ask(b"version\r\n")[0].startswith("VERSION") for c in many))
    for c in many:
        c.ask(b"quit\r\n", 0)
    print("quit", sum(c.file.read() == b"" for c in many))


main()
