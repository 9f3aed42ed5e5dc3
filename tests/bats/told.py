#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that want the kernel to tell them more than the data (docs/sockets.md).

  told.py messages-server ADDRESS PORT OPTION..  set the options on the listener; for each connection print which
                                                 messages come with the first 4 of 10 bytes
  told.py messages-client ADDRESS PORT OPTION..  the same of a connection, which has the options before connect()
  told.py sender ADDRESS PORT                    send 10 bytes whenever the server asks
  told.py zerocopy-server ADDRESS PORT           SO_ZEROCOPY on the listener. Send each connection 100,000 bytes with
                                                 MSG_ZEROCOPY, or without where the kernel refuses that. Print what
                                                 the error queue says
  told.py receiver ADDRESS PORT                  receive until the end; print how much

OPTION is one of: inq timestamp timestampns timestamping minttl
"""
import errno
import select
import socket
import struct
import sys
import time

SO_ZEROCOPY, MSG_ZEROCOPY, TCP_INQ, IP_MINTTL = 60, 0x4000000, 36, 21
SO_EE_ORIGIN_ZEROCOPY = 5
OPTIONS = {
    "inq": (socket.IPPROTO_TCP, TCP_INQ, 1),
    "timestamp": (socket.SOL_SOCKET, 29, 1),
    "timestampns": (socket.SOL_SOCKET, 35, 1),
    "timestamping": (socket.SOL_SOCKET, 37, 0x18),  # of received data, by software
    "minttl": (socket.IPPROTO_IP, IP_MINTTL, 1),
}


def set_all(sock, options):
    for name in options:
        sock.setsockopt(*OPTIONS[name])


def receive(connection):
    """Receive 4 of 10 bytes, then the others. Return the messages that came with the 4."""
    connection.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
    _, messages, _, _ = connection.recvmsg(4, 256)
    connection.recv(6, socket.MSG_WAITALL)
    shown = []
    for level, kind, data in messages:
        if (level, kind) == (socket.IPPROTO_TCP, TCP_INQ):
            shown.append("inq=%d" % struct.unpack("i", data))
        else:
            shown.append("%d/%d" % (level, kind))
    return shown


def show_messages(connection, options, ask):
    """The kernel begins to note times a moment after a program has asked for them."""
    wanted = len([name for name in options if name != "minttl"])
    for _ in range(200):
        connection.sendall(ask)
        shown = receive(connection)
        if len(shown) >= wanted:
            break
        time.sleep(0.05)
    print("messages: %s" % (" ".join(sorted(shown)) or "none"), flush=True)


def listener_at(address, port, *options):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for level, name, value in options:
        listener.setsockopt(level, name, value)
    listener.bind((address, int(port)))
    listener.listen(64)
    return listener


def messages_server(address, port, *options):
    listener = listener_at(address, port, *(OPTIONS[name] for name in options))
    while True:
        connection, _ = listener.accept()
        with connection:
            show_messages(connection, options, b".")


def messages_client(address, port, *options):
    connection = socket.socket()
    set_all(connection, options)
    connection.connect((address, int(port)))
    show_messages(connection, options, b"0123456789")
    connection.close()


def sender(address, port):
    with socket.create_connection((address, int(port))) as connection:
        while connection.recv(1):
            connection.sendall(b"0123456789")


def notices(connection, number):
    """Wait until the error queue has told of so many sends. Print who tells."""
    queue = select.poll()
    queue.register(connection, 0)
    while number > 0:
        if not queue.poll(10000):
            sys.exit("no notice")
        _, messages, _, _ = connection.recvmsg(0, 256, socket.MSG_ERRQUEUE)
        for _, _, data in messages:
            _, origin, _, _, _, first, last = struct.unpack("IBBBBII", data[:16])
            assert origin == SO_EE_ORIGIN_ZEROCOPY, origin
            number -= last - first + 1
    print("noticed", flush=True)


def send_all(connection, data):
    number = 0
    while data:
        try:
            data = data[connection.send(data, MSG_ZEROCOPY):]
            number += 1
        except OSError as error:
            assert error.errno == errno.ENOBUFS, error
            if number:
                notices(connection, number)
                number = 0
                continue
            print("copied", flush=True)
            connection.sendall(data)
            return
    notices(connection, number)


def zerocopy_server(address, port):
    listener = listener_at(address, port, (socket.SOL_SOCKET, SO_ZEROCOPY, 1))
    while True:
        connection, _ = listener.accept()
        with connection:
            send_all(connection, bytes(100000))


def receiver(address, port):
    received = 0
    with socket.create_connection((address, int(port))) as connection:
        while data := connection.recv(65536):
            received += len(data)
    print(received)


def main():
    {
        "messages-server": messages_server,
        "messages-client": messages_client,
        "sender": sender,
        "zerocopy-server": zerocopy_server,
        "receiver": receiver,
    }[sys.argv[1]](*sys.argv[2:])


main()
