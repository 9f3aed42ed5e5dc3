#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An echo server and its clients on uvloop; the clients print "NAME VALUE" lines.

usage: loop.py serve|ask ADDRESS
Port 7001 echoes, 7002 with TLS, 7003 closes the connection at once; listeners are shared by three
processes. Reads cert.pem and key.pem.
"""
import asyncio
import hashlib
import os
import signal
import socket
import ssl
import sys

import uvloop

how, host = sys.argv[1:]
PATIENCE = 120  # seconds; the answer comes at once unless the machine is busy


async def echo(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except ConnectionError:
        pass


async def goodbye(_, writer):
    writer.close()


async def serve(listeners):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain("cert.pem", "key.pem")
    await asyncio.start_server(echo, sock=listeners[0])
    await asyncio.start_server(echo, sock=listeners[1], ssl=tls)
    await asyncio.start_server(goodbye, sock=listeners[2])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


def serve_all():
    listeners = [socket.create_server((host, port), backlog=100) for port in (7001, 7002, 7003)]
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            run(serve(listeners))
            os._exit(0)
        children.append(pid)
    run(serve(listeners))
    for pid in children:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def run(main):
    uvloop.install()
    return asyncio.run(main)


def content(number, size):
    block = hashlib.sha256(b"%d" % number).digest()
    return (block * (size // 32 + 1))[:size]


async def stream(number, size, **options):
    reader, writer = await asyncio.open_connection(host, 7002 if options else 7001, **options)
    data = content(number, size)

    async def send():
        writer.write(data)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    sending = asyncio.ensure_future(send())
    same = await reader.readexactly(size) == data
    await sending
    if writer.can_write_eof():
        same = same and await reader.read() == b""
    writer.close()
    return same


async def low_level():
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, (host, 7001))
    data = content(7, 3000000)
    sending = asyncio.ensure_future(loop.sock_sendall(sock, data))
    got = bytearray()
    while len(got) < len(data):
        got += await loop.sock_recv(sock, 65536)
    await sending
    names = sock.getpeername() == (host, 7001), sock.family == socket.AF_INET
    sock.close()
    return bytes(got) == data, names


async def failure(port, **options):
    try:
        reader, _ = await asyncio.wait_for(asyncio.open_connection(host, port, **options), PATIENCE)
        return "end" if await reader.read() == b"" else "bytes"
    except (OSError, asyncio.TimeoutError) as error:
        return type(error).__name__


async def ask():
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    print("stream", await stream(1, 5000000))
    print("tls", await stream(2, 3000000, ssl=tls))
    print("low", *await low_level())
    print("many", sum(await asyncio.gather(*(stream(n, 1000 * n) for n in range(40)))))
    print("many.tls", sum(await asyncio.gather(*(stream(n, 5000, ssl=tls) for n in range(15)))))
    print("refused", await failure(7009))
    print("closed", await failure(7003))
    print("closed.many", *sorted(set(await asyncio.gather(*(failure(7003) for _ in range(20))))))
    print("no.tls", await failure(7001, ssl=tls, ssl_handshake_timeout=PATIENCE))
    task = asyncio.ensure_future(stream(3, 30000000))
    await asyncio.sleep(0.05)
    task.cancel()
    try:
        print("cancelled", await task)
    except asyncio.CancelledError:
        print("cancelled", "yes")
    print("after", await stream(4, 100000))


if how == "serve":
    serve_all()
else:
    run(ask())
