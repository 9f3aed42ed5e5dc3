#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user of the host who takes the abstract names that smcrd and other users' connections are about to need.

  name_squatter.py UID SECONDS SEED [NAME..]

It becomes the user UID, without further groups, and takes each NAME. Then it reads the names in use again and again
(/proc/net/unix), and takes those that may come next: of pair ends with the ids behind the latest one and the ports behind
those of the latest connections, of pair ends that have gone, and of other smcrd. "ready" on standard output tells that it
has done so once. Half of its sockets listen. The last line is "taken N refused N again N called N": names that it got, names
that somebody else had, names of pairs that had gone, and callers at its sockets.
"""
import os
import random
import resource
import socket
import sys
import time

IDS, PORTS = 40, 24  # so many behind the latest
LATEST = 3           # connections whose successors are guessed at
PAUSE_S = 0.02       # leaves time to others
PREFIX = "@smcr-pair:"


def names_in_use():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return [fields[7] for fields in (line.split() for line in file) if len(fields) > 7 and fields[7][0] == "@"]


class Squatter:
    def __init__(self, rng):
        self.rng, self.socks, self.seen = rng, [], {}
        self.taken = self.refused = self.again = self.called = 0

    def take(self, name, keep):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind("\0" + name)
        except OSError:
            self.refused += 1
            sock.close()
            return False
        self.taken += 1
        if self.rng.random() < 0.5:
            sock.setblocking(False)
            sock.listen(1)
        keep.append(sock)
        return True

    def let_go(self):
        for sock in self.socks:
            try:
                sock.accept()[0].close()
                self.called += 1
            except OSError:
                pass
            sock.close()
        self.socks = []

    def next_names(self, names):
        """Names that pair ends would get if ids and ports were given in a row."""
        pairs = [name[len(PREFIX):].split(":") for name in names if name.startswith(PREFIX)]
        pairs = [pair for pair in pairs if len(pair) == 5]
        latest = max((int(pair[0], 16) for pair in pairs), default=0)
        newest = sorted(pairs, key=lambda pair: int(pair[0], 16))[-LATEST:]
        for _, local, local_port, peer, peer_port in newest:
            client = int(local_port) > int(peer_port)  # its port is the one that changes
            for port in range(1, PORTS + 1):
                ports = [int(local_port), int(peer_port)]
                ports[0 if client else 1] += 2 * port
                for number in range(1, IDS + 1):
                    yield f"smcr-pair:{(latest + number) % 2 ** 64:016x}:{local}:{ports[0]}:{peer}:{ports[1]}"

    def one_round(self):
        self.let_go()
        names = names_in_use()
        for name in self.next_names(names):
            self.take(name, self.socks)
        pairs = {name for name in names if name.startswith(PREFIX)}
        for name in [name for name in self.seen if name not in pairs][:100]:
            self.again += self.take(name[1:], self.socks)
            del self.seen[name]
        self.seen.update(dict.fromkeys(pairs))
        for name in names:
            if name.startswith("@smcrd"):
                self.take(name[1:], self.socks)


def main():
    uid, seconds, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, 20000))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    squatter, kept = Squatter(random.Random(seed)), []
    for name in sys.argv[4:]:
        squatter.take(name, kept)
    until = time.monotonic() + seconds
    squatter.one_round()
    print("ready", flush=True)
    while time.monotonic() < until:
        squatter.one_round()
        time.sleep(PAUSE_S)
    squatter.let_go()
    print("taken", squatter.taken, "refused", squatter.refused, "again", squatter.again, "called", squatter.called)


if __name__ == "__main__":
    main()
