#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Python programs that use sockets in ways that are rare in C programs.

  sockets.py asyncio-server ADDRESS PORT      echo until killed, many connections in one loop
  sockets.py asyncio-client ADDRESS PORT N    N connections at once, half closed, checked
  sockets.py forking-server ADDRESS PORT      a process for each connection, echoes until the end
  sockets.py timeout-client ADDRESS PORT      create_connection() with a limit, makefile(), sendall()
  sockets.py buffered-client ADDRESS PORT N M set SO_RCVBUF to N and SO_SNDBUF to M, connect, exchange,
                                              stay until killed
  sockets.py keepalive-client ADDRESS PORT IDLE before|after
                                              keepalives every IDLE seconds, set before or after
                                              connect(); answers "ok" to each line on standard
                                              input when the server has echoed it
  sockets.py urgent-client ADDRESS PORT       have command_server send much data and an urgent byte;
                                              read nothing until SIGURG comes; print how many bytes
                                              came before and after the urgent byte
  sockets.py inetd ADDRESS PORT PROGRAM..     run PROGRAM.. for each connection, which is its 0 and 1
  sockets.py whoami                           addresses and kind of the socket at descriptor 0
  sockets.py hand-on ADDRESS PORT PROGRAM..   listen, then become PROGRAM.. with the listener at 0
  sockets.py inherited-server                 echo, with the listener that is at descriptor 0
  sockets.py early-client ADDRESS PORT        connect, then obey "send TEXT" and "rest" (read to the end)
  sockets.py late-sender ADDRESS PORT         send a request; when the server has answered and closed,
                                              send once more, then read the answer and the end
  sockets.py answering-server ADDRESS PORT    answer each connection with 100,000 bytes and close it
  sockets.py late-server ADDRESS PORT         accept and echo one connection for each line on
                                              standard input
  sockets.py ring-member ADDRESS PORT NEXT-ADDRESS NEXT-PORT
                                              for a line on standard input, connect, then accept
  sockets.py leave-behind ADDRESS PORT WAY PROGRAM
                                              echo, but after the first connection start "PROGRAM FD"
                                              with an empty environment; it inherits the listener as
                                              FD. WAY: exec, spawn, or dup (posix_spawn() with a
                                              listener that is closed on exec)
  sockets.py redirected-server ADDRESS PORT   print of each connection which port the client has asked for
                                              (SO_ORIGINAL_DST) and which one its SYN had (TCP_SAVED_SYN)
  sockets.py pass ADDRESS PORT                connect and send the descriptor to another process,
                                              which was started by exec and exchanges the data
"""
import asyncio
import array
import fcntl
import os
import select
import signal
import socket
import socketserver
import subprocess
import struct
import sys


async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
    writer.close()


async def asyncio_server(address, port):
    server = await asyncio.start_server(serve, address, int(port), backlog=256)
    await server.serve_forever()


async def one(address, port, i):
    sent = bytes(j * (i + 1) % 251 for j in range(50000 + i))
    reader, writer = await asyncio.open_connection(address, int(port))
    assert writer.get_extra_info("peername") == (address, int(port))
    assert writer.get_extra_info("socket").family == socket.AF_INET
    writer.write(sent)
    writer.write_eof()
    got = await reader.read()
    assert got == sent, f"connection {i}: {len(got)} of {len(sent)} bytes"
    writer.close()
    await writer.wait_closed()


async def asyncio_client(address, port, count):
    await asyncio.gather(*(one(address, port, i) for i in range(int(count))))


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


class Forked(socketserver.BaseRequestHandler):
    def handle(self):
        assert self.request.getpeername() == self.client_address
        echo(self.request)


def forking_server(address, port):
    socketserver.ForkingTCPServer.allow_reuse_address = True
    with socketserver.ForkingTCPServer((address, int(port)), Forked) as server:
        server.serve_forever()


def timeout_client(address, port):
    with socket.create_connection((address, int(port)), timeout=60) as connection:
        sent = os.urandom(300000)
        with connection.makefile("rb") as incoming:
            for at in range(0, len(sent), 10000):
                connection.sendall(sent[at : at + 10000])
                assert incoming.read(10000) == sent[at : at + 10000]
            connection.settimeout(0.2)
            try:
                connection.recv(1)
                raise AssertionError("recv() must run into its limit")
            except TimeoutError:
                pass
            connection.settimeout(60)
            connection.shutdown(socket.SHUT_WR)
            assert incoming.read() == b""


def buffered_client(address, port, receive, send):
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(receive))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(send))
        options = socket.SO_RCVBUF, socket.SO_SNDBUF
        before = [connection.getsockopt(socket.SOL_SOCKET, option) for option in options]
        connection.connect((address, int(port)))
        after = [connection.getsockopt(socket.SOL_SOCKET, option) for option in options]
        assert before == after
        connection.sendall(b"x")
        assert connection.recv(1) == b"x"
        signal.pause()


def keepalive_client(address, port, idle, when):
    def ask(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, int(idle))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, int(idle))

    with socket.socket() as connection:
        if when == "before":
            ask(connection)
        connection.connect((address, int(port)))
        if when == "after":
            ask(connection)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == int(idle)
        for line in sys.stdin:
            connection.sendall(line.encode())
            got = b""
            while len(got) < len(line):
                got += connection.recv(len(line) - len(got))
            assert got == line.encode()
            print("ok", flush=True)


def inetd(address, port, *program):
    listener = socket.create_server((address, int(port)))
    while True:
        connection, _ = listener.accept()
        with connection:
            subprocess.run(program, stdin=connection, stdout=connection, check=True)


def whoami():
    me = socket.socket(fileno=0)
    print(me.family.name, me.type.name, me.proto, me.getsockname(), me.getpeername())


SIOCATMARK = 0x8905


def urgent_client(address, port):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    connection = socket.create_connection((address, int(port)), timeout=120)
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    connection.sendall(b"f")
    if not signal.sigtimedwait([signal.SIGURG], 120):
        sys.exit("no SIGURG")
    if not select.select([], [], [connection], 120)[2]:
        sys.exit("no priority event")
    before = 0
    while not struct.unpack("i", fcntl.ioctl(connection, SIOCATMARK, bytes(4)))[0]:
        before += len(connection.recv(65536))
    urgent = connection.recv(1, socket.MSG_OOB)
    print(before, urgent.decode(), connection.recv(3, socket.MSG_WAITALL).decode())


def hand_on(address, port, *program):
    listener = socket.create_server((address, int(port)))
    os.dup2(listener.fileno(), 0)
    os.execvp(program[0], program)


def inherited_server():
    listener = socket.socket(fileno=0)
    while True:
        connection, _ = listener.accept()
        with connection:
            echo(connection)


def start_with(listener, way, program):
    fd = listener.fileno()
    if way == "dup":
        action = (os.POSIX_SPAWN_DUP2, fd, 9)
        os.posix_spawn(program, [program, "9"], {}, file_actions=[action])
        return
    listener.set_inheritable(True)
    if way == "spawn":
        os.posix_spawn(program, [program, str(fd)], {})
    elif os.fork() == 0:
        try:
            os.execve(program, [program, str(fd)], {})
        except OSError as error:
            print(error.strerror, flush=True)
        os._exit(0)


def leave_behind(address, port, way, program):
    listener = socket.create_server((address, int(port)), backlog=256)
    started = False
    while True:
        connection, _ = listener.accept()
        with connection:
            echo(connection)
        print("kept", flush=True)
        if not started:
            start_with(listener, way, program)
            started = True


def talk(channel):
    """The other process: receive a descriptor and use it."""
    fds = array.array("i")
    _, control, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(4))
    fds.frombytes(control[0][2])
    with socket.socket(fileno=fds[0]) as connection:
        connection.sendall(b"from elsewhere")
        got = b""
        while len(got) < 14:
            got += connection.recv(100)
        assert got == b"from elsewhere"
        print(connection.getpeername())


def pass_on(address, port):
    ours, theirs = socket.socketpair()
    other = subprocess.Popen([sys.executable, __file__, "talk"], stdin=theirs)
    theirs.close()
    connection = socket.create_connection((address, int(port)))
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))
    ours.sendmsg([b"x"], [rights])
    connection.close()
    sys.exit(other.wait())


def early_client(address, port):
    """Connect. "send TEXT" sends TEXT; "rest" ends the own direction and prints everything until the end."""
    with socket.create_connection((address, int(port))) as connection:
        print("connected", flush=True)
        for line in sys.stdin:
            command, _, text = line.strip().partition(" ")
            if command == "send":
                connection.sendall(text.encode())
                print("ok", flush=True)
            elif command == "rest":
                connection.shutdown(socket.SHUT_WR)
                print(connection.makefile().read(), flush=True)


def late_sender(address, port):
    with socket.create_connection((address, int(port))) as connection:
        connection.sendall(b"question")
        # Wait without reading until the end has arrived too.
        poll = select.poll()
        poll.register(connection, select.POLLRDHUP)
        assert poll.poll(120000)
        connection.send(b"one more")
        poll.register(connection, 0)
        assert poll.poll(120000)  # POLLHUP: the reset has come
        assert len(connection.makefile("rb").read()) == 100000
        try:
            connection.send(b"x")
            raise AssertionError("send() must fail")
        except BrokenPipeError:
            print("ok")


def answering_server(address, port):
    with socket.create_server((address, int(port))) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(8) == b"question"
                connection.sendall(bytes(100000))


def redirected_server(address, port):
    original, save_syn, saved_syn = 80, 27, 28  # SO_ORIGINAL_DST, TCP_SAVE_SYN, TCP_SAVED_SYN
    family, level, header = socket.AF_INET, socket.IPPROTO_IP, 20
    if ":" in address:
        family, level, header = socket.AF_INET6, socket.IPPROTO_IPV6, 40
    with socket.create_server((address, int(port)), family=family) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, save_syn, 1)
        while True:
            connection, _ = listener.accept()
            with connection:
                asked = struct.unpack_from("!H", connection.getsockopt(level, original, 28), 2)
                syn = connection.getsockopt(socket.IPPROTO_TCP, saved_syn, 256)
                print(*asked, *struct.unpack_from("!H", syn, header + 2), flush=True)


def filling_client(address, port):
    """Write until nothing more is taken, read nothing, and close. Then connect once more to say so."""
    with socket.create_connection((address, int(port))) as connection:
        connection.setblocking(False)
        while select.select([], [connection], [], 0.3)[1]:
            connection.send(bytes(65536))
    socket.create_connection((address, int(port))).close()


def late_answer(address, port):
    """Answer a client that has closed, and read nothing: a reset must end that."""
    with socket.create_server((address, int(port))) as listener:
        connection, _ = listener.accept()
        listener.accept()  # the client has closed
        connection.settimeout(120)  # a failure of this test is no hang
        try:
            connection.sendall(bytes(64 << 20))
            print("sent")
        except (ConnectionResetError, BrokenPipeError):
            print("reset")


def late_server(address, port):
    """For each line accept one connection and send back what it sends."""
    with socket.create_server((address, int(port))) as listener:
        for _ in sys.stdin:
            connection, _ = listener.accept()
            with connection:
                echo(connection)
            print("ok", flush=True)


def ring_member(address, port, next_address, next_port):
    """Listen. At a line connect to the next member, then accept, and print what has come."""
    with socket.create_server((address, int(port))) as listener:
        sys.stdin.readline()
        with socket.create_connection((next_address, int(next_port))) as ahead:
            ahead.sendall(address.encode())
            behind, _ = listener.accept()
            ahead.shutdown(socket.SHUT_WR)
            with behind:
                print(behind.makefile().read(), flush=True)


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "asyncio-server":
        asyncio.run(asyncio_server(*args))
    elif what == "asyncio-client":
        asyncio.run(asyncio_client(*args))
    elif what == "talk":
        talk(socket.socket(fileno=0))
    else:
        {
            "forking-server": forking_server,
            "timeout-client": timeout_client,
            "buffered-client": buffered_client,
            "keepalive-client": keepalive_client,
            "urgent-client": urgent_client,
            "inetd": inetd,
            "whoami": whoami,
            "hand-on": hand_on,
            "inherited-server": inherited_server,
            "leave-behind": leave_behind,
            "redirected-server": redirected_server,
            "pass": pass_on,
            "early-client": early_client,
            "late-server": late_server,
            "filling-client": filling_client,
            "late-answer": late_answer,
            "late-sender": late_sender,
            "answering-server": answering_server,
            "ring-member": ring_member,
        }[what](*args)


main()
