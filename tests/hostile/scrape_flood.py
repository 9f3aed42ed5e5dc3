#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Visitors who flood the metrics of smcrd, at its Unix socket or its TCP port.

  scrape_flood.py UNIX-SOCKET|ADDRESS:PORT UID SECONDS SEED

Becomes the user UID, and keeps up to 200 connections open, each of a visitor who

  asks    for the metrics, and reads them
  deaf    asks for them, and never reads
  silent  says nothing
  slow    says a byte now and then
  mangles sends a request that is none, or that is too long, or several of them
  goes    breaks the connection off, before or in the middle of the answer

The last line is "visits N answers N refusals N ended N refused N": connections that smcrd took, answers with the
metrics that came whole, other answers, connections that ended without an answer (smcrd closes the oldest one for a
new one), and attempts that found the queue full. Fails if an answer is not HTTP.
"""
import errno
import os
import random
import selectors
import socket
import struct
import sys
import time

OPEN_MOST = 200
TICK_S = 0.01
PATIENCE_S = 120
LIFE_S = 7  # some seconds more than smcrd allows
KINDS = ("asks", "asks", "deaf", "silent", "slow", "mangles", "goes")
GOOD = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"get", b"", b"G" * 3000)
PATHS = (b"/metrics", b"/", b"/metrics?x=1", b"/../metrics", b"//metrics", b"*", b"/" + b"m" * 9000, b"\x00\xff")
ENDS = (b"\r\n\r\n", b"\n\n", b"\r\n", b"", b"\r\n" + b"X: y\r\n" * 2000 + b"\r\n", b"\r\n\r\n" + GOOD * 50)

rng = random.Random()
count = dict.fromkeys(("visits", "answers", "refusals", "ended", "refused"), 0)


def request(kind):
    if kind in ("asks", "deaf", "slow", "goes"):
        return GOOD
    if kind == "silent":
        return b""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(1, 20000))
    version = rng.choice((b" HTTP/1.1", b" HTTP/1.0", b" HTTP/9", b""))
    return rng.choice(METHODS) + b" " + rng.choice(PATHS) + version + rng.choice(ENDS)


class Visitor:
    def __init__(self, flood):
        self.flood, self.kind = flood, rng.choice(KINDS)
        self.unsent, self.answer = request(self.kind), b""
        self.until = time.monotonic() + (rng.random() * 0.1 if self.kind == "goes" else LIFE_S)
        self.inside = self.registered = False
        self.socket = socket.socket(flood.family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        error = self.socket.connect_ex(flood.where)
        if error not in (0, errno.EINPROGRESS):
            self.socket.close()
            raise OSError(error, os.strerror(error))
        self.want(selectors.EVENT_WRITE)
        flood.visitors.add(self)

    def want(self, events):
        if self.registered:
            self.flood.selector.unregister(self.socket)
        self.registered = events != 0
        if events:
            self.flood.selector.register(self.socket, events, self)

    def leave(self):
        if self.kind == "goes":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.want(0)
        self.flood.visitors.discard(self)
        self.socket.close()

    def write(self):
        if not self.inside:
            error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            self.inside = True
            count["visits"] += 1
        if self.kind != "slow" and self.unsent:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]
        if self.kind == "slow" or not self.unsent:
            self.want(0 if self.kind == "deaf" else selectors.EVENT_READ)

    def read(self):
        data = self.socket.recv(1 << 16)
        self.answer += data
        if not data:
            self.judge()
            self.leave()

    def judge(self):
        if not self.answer:
            count["ended"] += 1
        elif not self.answer.startswith(b"HTTP/1.1 "):
            sys.exit(f"this is no answer: {self.answer[:60]!r}")
        elif self.answer.startswith(b"HTTP/1.1 200") and self.answer.endswith(b"# EOF\n"):
            count["answers"] += 1
        else:
            count["refusals"] += 1

    def serve(self, events):
        try:
            if events & selectors.EVENT_WRITE:
                self.write()
            else:
                self.read()
        except BlockingIOError:
            pass
        except OSError:  # smcrd has closed the connection
            count["ended" if self.inside else "refused"] += 1
            self.leave()

    def tick(self, now):
        if now >= self.until:
            self.leave()
        elif self.kind == "slow" and self.inside and self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent[:1]) :]
            except OSError:
                count["ended"] += 1
                self.leave()


class Flood:
    def __init__(self, where):
        self.selector, self.visitors = selectors.DefaultSelector(), set()
        self.family, self.where = socket.AF_UNIX, where
        if not where.startswith("/"):
            address, port = where.rsplit(":", 1)
            self.family, self.where = socket.AF_INET, (address, int(port))

    def come(self):
        """Have new visitors come, until the queue is full or enough are there."""
        for _ in range(20):
            if len(self.visitors) >= OPEN_MOST:
                return
            try:
                Visitor(self)
            except OSError:
                count["refused"] += 1
                return

    def run(self, until):
        """Flood until then; longer, on a slow machine, if nobody has had an answer."""
        while (now := time.monotonic()) < until + (0 if count["answers"] else PATIENCE_S):
            self.come()
            for key, events in self.selector.select(TICK_S):
                key.data.serve(events)
            for visitor in list(self.visitors):
                visitor.tick(now)
            time.sleep(TICK_S)  # leave time to others
        while self.visitors:
            next(iter(self.visitors)).leave()


def main():
    where, uid, seconds, seed = sys.argv[1], *map(int, sys.argv[2:])
    rng.seed(seed)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    Flood(where).run(time.monotonic() + seconds)
    print(" ".join(f"{name} {number}" for name, number in count.items()))


main()
