#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Read or write a file by SMB, and print how fast that was.

usage: smbbench.py read|write URL SIZE SECONDS     MB/s, with requests of SIZE bytes, one after the other
       smbbench.py small URL SIZE SECONDS          requests of SIZE bytes a second, read at random places

URL is smb://USER:PASSWORD@HOST:PORT/SHARE/FILE. `write` makes the file, 256 MiB long; the others need it. libsmbclient of
Samba does the work: it has a request for up to 8 MiB under way, as smbclient has.
"""
import ctypes
import os
import random
import sys
import time

FILE_BYTES = 256 << 20

smbc = ctypes.CDLL("libsmbclient.so.0", use_errno=True)
AUTH = ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 2, *[ctypes.c_void_p, ctypes.c_int] * 3)
smbc.smbc_open.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
smbc.smbc_read.argtypes = smbc.smbc_write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
smbc.smbc_read.restype = smbc.smbc_write.restype = ctypes.c_ssize_t
smbc.smbc_lseek.argtypes = [ctypes.c_int, ctypes.c_longlong, ctypes.c_int]
smbc.smbc_lseek.restype = ctypes.c_longlong
smbc.smbc_ftruncate.argtypes = [ctypes.c_int, ctypes.c_longlong]


def check(result, what):
    if result < 0:
        sys.exit(f"smbbench: {what}: {os.strerror(ctypes.get_errno())}")
    return result


@AUTH
def no_other_user(*_):
    """The URL names the user."""


def rounds(seconds):
    """Count up until the time is over."""
    end = time.monotonic() + seconds
    n = 0
    while time.monotonic() < end:
        yield n
        n += 1


def bulk(fd, call, size, seconds):
    """MB/s of one request after the other, from the beginning of the file again and again."""
    buf = ctypes.create_string_buffer(size)
    begun, done, at = time.monotonic(), 0, 0
    for _ in rounds(seconds):
        if at + size > FILE_BYTES:
            check(smbc.smbc_lseek(fd, 0, os.SEEK_SET), "seek")
            at = 0
        n = check(call(fd, buf, size), "read or write")
        if n != size:
            sys.exit(f"smbbench: {n} bytes instead of {size}")
        at += n
        done += n
    return done / (time.monotonic() - begun) / 1e6


def small(fd, size, seconds):
    """Requests a second."""
    buf = ctypes.create_string_buffer(size)
    places = random.Random(1)
    begun, done = time.monotonic(), 0
    for done in rounds(seconds):
        check(smbc.smbc_lseek(fd, places.randrange(FILE_BYTES // size) * size, os.SEEK_SET), "seek")
        if check(smbc.smbc_read(fd, buf, size), "read") != size:
            sys.exit("smbbench: a short read")
    return (done + 1) / (time.monotonic() - begun)


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in ("read", "write", "small"):
        sys.exit(__doc__)
    what, url, size, seconds = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3]), float(sys.argv[4])
    check(smbc.smbc_init(no_other_user, 0), "libsmbclient")
    flags = os.O_RDWR | os.O_CREAT if what == "write" else os.O_RDONLY
    fd = check(smbc.smbc_open(url, flags, 0o644), sys.argv[2])
    if what == "write":
        check(smbc.smbc_ftruncate(fd, FILE_BYTES), "set the length")
    if what == "small":
        print(f"{small(fd, size, seconds):.0f}")
    else:
        print(f"{bulk(fd, smbc.smbc_write if what == 'write' else smbc.smbc_read, size, seconds):.1f}")
    smbc.smbc_close(fd)


if __name__ == "__main__":
    main()
