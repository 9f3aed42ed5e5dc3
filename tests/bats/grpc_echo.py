#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gRPC's C core, by its Python module.

  grpc_echo.py serve ADDRESS PORT  a server that echoes
  grpc_echo.py ask ADDRESS PORT    small and large calls, streams in both directions, many calls at once
"""
import sys
from concurrent import futures

import grpc

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/Echo/Stream":
            return grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


def serve(address, port):
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Echo()], options=UNLIMITED)
    if not server.add_insecure_port("%s:%s" % (address, port)):
        sys.exit("cannot listen")
    server.start()
    server.wait_for_termination()


def ask(address, port):
    with grpc.insecure_channel("%s:%s" % (address, port), options=UNLIMITED) as channel:
        say = channel.unary_unary("/Echo/Say")
        stream = channel.stream_stream("/Echo/Stream")
        for size in (0, 1, 100, 70000, 5000000):
            assert say(bytes(size), timeout=60) == bytes(size), size
        parts = [bytes([i % 256]) * (i * 97) for i in range(300)]
        assert list(stream(iter(parts), timeout=60)) == parts
        calls = [say.future(b"%d" % i, timeout=60) for i in range(200)]
        assert [call.result() for call in calls] == [b"%d" % i for i in range(200)]
    print("ok")


{"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
