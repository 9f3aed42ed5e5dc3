#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user of the host who attacks smcrd, at its socket and with claimed sockets.

  local_user.py SOCKET UID ADDRESS PORT SEED ROUNDS

Becomes the user UID, without groups. ADDRESS and PORT belong to a server on another host, for connections that
can be handed over. Each round is a session (or a few connections, or claims) of some kind, chosen by SEED. Some
sessions stay open and pile up. The last line on standard output has the number of rounds of each kind. Exits
with 0, or with 1 if smcrd allowed what it must not, which is then printed.
"""
import array
import collections
import json
import mmap
import os
import random
import resource
import select
import socket
import struct
import sys

HEADER = struct.Struct(">HBBI")
MAGIC, FORMAT = 0x534D, 1
HELLO, ERROR, HANDOVER, RESULT, STATUS_REQUEST, STATUS, SOCKOPT_REQUEST = 1, 2, 3, 4, 5, 6, 7
SOCKOPT, CONTROL, CONTROL_REPLY, INFO_REQUEST, INFO, MEMORY_REQUEST, MEMORY = 8, 9, 10, 11, 12, 13, 14
SOL_SMCR, SO_CLAIM, SO_NEGOTIATED, SO_BAR = 0x534D4352, 1, 2, 4
SO_SPOKEN = 7
SO_NUMBERS = (1, 2, 3, 4, 5, 6, 7, 255)
EYE = b"\xe2\xd4\xc3\xd9"
CHANGES = (
    ("linkgroup.delete", {"linkgroup": 1}),
    ("link.delete", {"linkgroup": 1, "link": 1}),
    ("link.disable", {"linkgroup": 1, "link": 1}),
    ("link.add", {"linkgroup": 1}),
    ("ueid.add", {"name": "EVIL"}),
    ("policy.add", {"rule": "deny all"}),
    ("policy.forget", {"peer": "10.77.0.1"}),
)
SHOWS = ("info", "device", "linkgroup", "link", "connection", "event", "ueid", "policy")
LEFT_MAX = 150  # sessions that are left open at a time

rng = random.Random()
left = collections.deque()
counts = collections.Counter()


def frame(kind, payload, length=None, magic=MAGIC, form=FORMAT):
    return HEADER.pack(magic, form, kind, len(payload) if length is None else length) + payload


GREETING = frame(HELLO, struct.pack(">HH", 1, 1))


class Session:
    """Ignore errors and ends: the daemon may do that to any attacker."""

    path = None

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.buffer = b""
        self.fds = []
        try:
            self.socket.connect(self.path)
        except OSError:
            pass

    def send(self, data, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], control)
            return True
        except OSError:
            return False

    def reply(self, wait=0.02):
        """A reply other than HELLO, as (type, payload), or None if none comes in time."""
        while True:
            if len(self.buffer) >= HEADER.size:
                _, _, kind, length = HEADER.unpack_from(self.buffer)
                if len(self.buffer) >= HEADER.size + length:
                    payload = self.buffer[HEADER.size : HEADER.size + length]
                    self.buffer = self.buffer[HEADER.size + length :]
                    if kind != HELLO:
                        return kind, payload
                    continue
            if not select.select([self.socket], [], [], wait)[0]:
                return None
            try:
                data, control, _, _ = self.socket.recvmsg(1 << 18, socket.CMSG_SPACE(16))
            except OSError:
                return None
            for _, _, value in control:
                self.fds += array.array("i", value[: len(value) // 4 * 4])
            if not data:
                return None
            self.buffer += data

    def ask(self, kind, payload, fds=(), wait=0.02):
        self.send(GREETING + frame(kind, payload), fds)
        return self.reply(wait)

    def leave(self):
        """Leave the session open as it is."""
        left.append(self)
        while len(left) > LEFT_MAX:
            left.popleft().close()

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self.socket.close()


def end(session):
    if rng.random() < 0.1:
        session.leave()
    else:
        session.close()


def some_bytes(most):
    return rng.randbytes(rng.randrange(most + 1))


# ---- requests in a valid form, with values that may be invalid

def addr_payload():
    family = rng.choice((0, 4, 6, rng.randrange(256)))
    if family == 4:
        return struct.pack(">BH", 4, rng.randrange(65536)) + rng.randbytes(4)
    if family == 6:
        return struct.pack(">BH", 6, rng.randrange(65536)) + rng.randbytes(20)
    return bytes([family])


def requests():
    """(type, payload) of a request that a program or tool may make."""
    option = rng.choice(((6, 1), (1, 8), (1, 13), (0, 1), (6, 5), (6, 22), (SOL_SMCR, 1),
                         (rng.randrange(1 << 31), rng.randrange(1 << 31))))  # fmt: skip
    value = some_bytes(256) if rng.random() < 0.5 else bytes(4)
    return rng.choice((
        (HANDOVER, bytes([rng.choice((1, 2, 3, 0, 255)), rng.randrange(4)]) + addr_payload()),
        (STATUS_REQUEST, bytes([rng.randrange(8)])),
        (SOCKOPT_REQUEST, struct.pack(">BiiiH", rng.randrange(5), *option, 0, len(value)) + value),
        (INFO_REQUEST, bytes([rng.randrange(4)])),
        (MEMORY_REQUEST, bytes([rng.choice((1, 1, 0, 255))])),
        (CONTROL, json.dumps({"method": rng.choice(SHOWS) + ".show"}).encode()),
    ))  # fmt: skip


def odd_descriptor():
    """A descriptor of a wrong kind, and what has to be closed afterwards."""
    kind = rng.randrange(12)
    if kind == 0:
        return os.open("/dev/null", os.O_RDWR)
    if kind == 1:
        return os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    if kind == 2:
        ours, theirs = os.pipe()
        os.close(ours)
        return theirs
    if kind == 3:
        return os.memfd_create("odd")
    if kind == 4:
        return os.eventfd(0)
    if kind == 5:
        epoll = select.epoll()
        return os.dup(epoll.fileno())
    if kind == 6:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach()
    if kind == 7:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()
    if kind == 8:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        listener.listen(1)
        return listener.detach()
    if kind == 9:
        return socket.socketpair()[0].detach()
    if kind == 10:  # looks like a pair end of the daemon, of a connection that may exist
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = "\0smcr-pair:%016x:10.77.0.2:%d:10.77.0.1:7100" % (rng.getrandbits(64), rng.randrange(65536))
        try:
            end.bind(name)
        except OSError:
            pass
        return end.detach()
    return claimed_connection() or os.eventfd(0)


def claimed_connection(server=None):
    """A connection to the server for which the SMC-R option was sent, or None."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.settimeout(5)
    try:
        sock.setsockopt(SOL_SMCR, SO_CLAIM, 1)
        sock.connect(server or claimed_connection.server)
        sock.settimeout(None)
        return sock.detach()
    except OSError:
        sock.close()
        return None


# ---- the kinds of attack

def attack_garbage():
    session = Session()
    session.send(some_bytes(2000))
    end(session)


def attack_mangled_frame():
    session = Session()
    data = bytearray(GREETING + frame(*requests()) + frame(*requests()))
    for _ in range(1 + rng.randrange(4)):
        data[rng.randrange(len(data))] ^= 1 + rng.randrange(255)
    session.send(bytes(data))
    session.reply(0.005)
    end(session)


def attack_truncated():
    session = Session()
    data = (GREETING if rng.random() < 0.7 else b"") + frame(*requests())
    session.send(data[: rng.randrange(len(data))])
    end(session)


def attack_lengths():
    session = Session()
    kind, payload = requests()
    length = rng.choice((0, 1, len(payload) + 1, 511, 512, 513, 1 << 16, (16 << 20), (16 << 20) + 1, 0xFFFFFFFF))
    session.send(GREETING + frame(kind, payload, length) + some_bytes(1000))
    session.reply(0.005)
    end(session)


def attack_unknown_types():
    session = Session()
    session.send(GREETING + b"".join(frame(rng.randrange(256), some_bytes(64)) for _ in range(20)))
    session.reply(0.005)
    end(session)


def attack_descriptors():
    session = Session()
    fds = [odd_descriptor() for _ in range(rng.choice((1, 1, 1, 2, 5, 40)))]
    kind, payload = requests()
    session.send(GREETING + frame(kind, payload), fds)
    for fd in fds:
        os.close(fd)
    if rng.random() < 0.5:
        session.reply()
    end(session)


def attack_own_session():
    """Send the session's own socket, and those of sessions that are left open, in the session."""
    session = Session()
    kind, payload = requests()
    session.send(GREETING + frame(kind, payload), [session.socket.fileno()])
    end(session)


def attack_requests_unread():
    """Send many requests, and read no answer."""
    session = Session()
    session.send(GREETING)
    request = frame(CONTROL, json.dumps({"method": rng.choice(SHOWS) + ".show"}).encode())
    while session.send(request * 50) and rng.random() < 0.9:
        pass
    end(session)


def attack_json():
    texts = ["{" * 5000, "[" * 100000, '{"method":' + '{"a":' * 3000, '"' + "x" * 100000, "null", "[]", "7", "",
             '{"method":7}', '{"method":"connection.show","params":{"after":"x"}}', '{"method":"connection.show","params":{"after":-1}}',
             '{"method":"connection.show","params":{"after":18446744073709551616}}', '{"method":"info.show"}' * 3,
             '{"method":"\x00info.show"}', '{"method":"nothing"}', '{"method":"info.show","x":1e999999}']  # fmt: skip
    session = Session()
    text = rng.choice(texts).encode()
    if rng.random() < 0.3:
        text = some_bytes(3000)
    session.ask(CONTROL, text)
    end(session)


def attack_change():
    """Requests that only administrators may make."""
    session = Session()
    method, params = rng.choice(CHANGES)
    answer = session.ask(CONTROL, json.dumps({"method": method, "params": params}).encode(), wait=1)
    if answer and answer[0] == CONTROL_REPLY and json.loads(answer[1]).get("error", {}).get("code") != "not-permitted":
        sys.exit(f"an ordinary user may do {method}: {answer[1]}")
    session.close()


def attack_claims():
    """Claim and bar sockets of all kinds, in all forms."""
    family, kind = rng.choice(((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_STREAM),
                               (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)))  # fmt: skip
    socks = []
    for _ in range(50):
        sock = socket.socket(family, kind)
        socks.append(sock)
        try:
            if rng.random() < 0.3 and kind == socket.SOCK_STREAM and family != socket.AF_UNIX:
                sock.listen(1)
            sock.setsockopt(SOL_SMCR, rng.choice(SO_NUMBERS),
                            rng.choice((struct.pack("=i", rng.choice((0, 1, 2, -1))), some_bytes(64))) or b"\0")  # fmt: skip
            sock.getsockopt(SOL_SMCR, rng.choice(SO_NUMBERS), rng.choice((0, 1, 4, 64, 4096)))
            if rng.random() < 0.5 and kind == socket.SOCK_STREAM and family != socket.AF_UNIX:
                sock.listen(5)
        except OSError:
            pass
    for sock in socks:
        sock.close()


def hand_over(session):
    """Hand over a genuine connection. Returns its pair end, or None."""
    fd = claimed_connection()
    if fd is None:
        return None
    answer = session.ask(HANDOVER, bytes([1, 0, 0]), [fd], 1)
    os.close(fd)
    if not answer or answer[0] != RESULT or not session.fds:
        return None
    return session.fds.pop()


def attack_connection():
    """Hand over a connection, then misuse the connection and the session."""
    session = Session()
    pair = hand_over(session)
    if pair is None:
        session.close()
        return
    counts["connections"] += 1
    for _ in range(rng.randrange(6)):
        kind, payload = requests()
        session.send(frame(kind, payload), [pair] if rng.random() < 0.8 else [])
        session.reply(0.01)
        if rng.random() < 0.3:
            try:
                os.write(pair, some_bytes(20000))
            except OSError:
                break
    os.close(pair)
    end(session)


def scribble(fd, size):
    """Write nonsense into all of the memory, control page and data."""
    with mmap.mmap(fd, size) as memory:
        for _ in range(300):
            at = rng.randrange(4096) if rng.random() < 0.7 else rng.randrange(size)
            memory[at] = rng.randrange(256)


def attack_memory():
    """Ask for the memory of a connection, and write nonsense into it."""
    session = Session()
    pair = hand_over(session)
    if pair is None:
        session.close()
        return
    socket_of_pair = socket.socket(fileno=pair)
    socket_of_pair.setblocking(False)
    session.send(frame(MEMORY_REQUEST, b"\x01"), [pair])
    session.reply(0.2)
    for _ in range(10):
        if session.fds:
            counts["memories"] += 1
            scribble(session.fds[0], os.fstat(session.fds[0]).st_size)
        try:
            socket_of_pair.send(some_bytes(3000))
            socket_of_pair.recv(3000)
        except OSError:
            pass
    socket_of_pair.close()
    end(session)


def attack_wrong_handover():
    """Hand over a connection in a wrong form, and leave in the middle."""
    session = Session()
    fd = claimed_connection()
    if fd is None:
        return
    payload = rng.choice((bytes([3, 0, 0]), bytes([2, 0, 4]) + b"\x1b\x59" + bytes([127, 0, 0, 1]), bytes([1, 1, 0]),
                          bytes([2, 0, 4]) + b"\x1b\x59" + rng.randbytes(4)))  # fmt: skip
    session.send(GREETING + frame(HANDOVER, payload), [fd])
    if rng.random() < 0.5:
        os.write(fd, some_bytes(100))  # the socket belongs to the daemon now
    os.close(fd)
    end(session)


def attack_raw_connection():
    """Let the option be sent, and then send anything but CLC."""
    fd = claimed_connection()
    if fd is None:
        return
    sock = socket.socket(fileno=fd)
    try:
        sock.send(some_bytes(500) or b"\0")
    except OSError:
        pass
    sock.close()


def clc(kind, length, flags=0):
    return EYE + struct.pack(">BHB", kind, length, 0x10 | flags) + rng.randbytes(length - 12) + EYE


def proposal():
    body = rng.randbytes(30) + struct.pack(">H", 0) + socket.inet_aton("10.77.0.0") + bytes([24, 0, 0, 0])
    return EYE + struct.pack(">BHB", 1, 12 + len(body), 0x10) + body + EYE


def attack_clc():
    """Send CLC messages, in one piece or many: they must get no answer."""
    fd = claimed_connection()
    if fd is None:
        return
    sock = socket.socket(fileno=fd)
    try:
        if sock.getsockopt(SOL_SMCR, SO_NEGOTIATED) == 1:
            counts["promised"] += 1
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            message = rng.choice((proposal(), clc(3, 68), clc(2, 68), clc(4, 28, 8)))
            cut = rng.choice((len(message), 1, 7, 8, 27))
            sock.send(message[:cut])
            sock.send(message[cut:] + b"x")
            if select.select([sock], [], [], 0.02)[0] and sock.recv(1):
                sys.exit("an ordinary user's CLC was answered")
    except OSError:
        pass
    sock.close()


def attack_clc_beside():
    """Hand over a connection, and write CLC messages to another descriptor of it."""
    session = Session()
    fd = claimed_connection()
    if fd is None:
        return
    session.send(GREETING + frame(HANDOVER, bytes([1, 0, 0])), [fd])
    try:
        for _ in range(rng.randrange(1, 20)):
            os.write(fd, rng.choice((clc(3, 68), clc(4, 28, 8))))
            if rng.random() < 0.2 and select.select([fd], [], [], 0)[0]:
                os.read(fd, 20)
    except OSError:
        pass
    os.close(fd)
    end(session)


def attack_spoken():
    """Tell the BPF programs that smcrd has sent a message, which only smcrd may do."""
    fd = claimed_connection()
    if fd is None:
        return
    sock = socket.socket(fileno=fd)
    try:
        sock.setsockopt(SOL_SMCR, SO_SPOKEN, rng.choice((b"\xff" * 8, struct.pack("=II", 52, 0) + proposal().ljust(1024))))
        sys.exit("an ordinary user says what smcrd has said")
    except OSError:
        pass
    sock.close()


ATTACKS = [value for name, value in sorted(globals().items()) if name.startswith("attack_")]


def become(uid):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[1], 4096), limits[1]))
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def main():
    Session.path, uid, address, port, seed, rounds = sys.argv[1:7]
    claimed_connection.server = (address, int(port))
    become(int(uid))
    rng.seed(int(seed))
    for _ in range(int(rounds)):
        attack = rng.choice(ATTACKS)
        counts[attack.__name__.removeprefix("attack_")] += 1
        attack()
    print(" ".join(f"{name}={counts[name]}" for name in sorted(counts)))


if __name__ == "__main__":
    main()
