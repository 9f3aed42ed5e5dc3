#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that directories include each other's headers one way (docs/design.md).

usage: includes.py            check, as TAP

Reads the files of the tree that git knows. ORDER is the one place that says what may be included.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402

# A directory may include the rows above its own, and not its neighbours in a row. "daemon" is the files of daemon/
# itself, which put all parts together.
PROTO = (
    ("proto/smcr", "proto/path"),
    ("proto/ipc", "proto/roce", "proto/ibcm", "proto/smbdirect", "proto/smb2", "proto/rpcrdma"),
    ("proto/capture",),
)
DAEMON = PROTO + (
    ("daemon/smcr", "daemon/smbdirect", "daemon/rpcrdma", "daemon/rnic", "daemon/rendezvous/bpf"),
    ("daemon/host",),
    ("daemon/rendezvous",),
    ("daemon/policy", "daemon/fabric", "daemon/conns", "daemon/cm"),
    ("daemon/smbgate",),
    ("daemon/events", "daemon/clients"),
    ("daemon/control",),
    ("daemon/bus",),
    ("daemon",),
)
PROGRAMS = PROTO + (
    ("include", "lib/smcr"),
    ("lib/inspect",),
    ("lib/preload", "lib/libsmcr", "cli/smcr-run", "cli/smcrctl"),
)
ORDER = (DAEMON, PROGRAMS)
# Directories that only they themselves include. They may include what is named, and what that may include.
INNER = {
    "daemon/rnic/soft": "daemon/rnic",
    "daemon/rnic/verbs": "daemon/rnic",
}
EXCEPTIONS = {
    ("daemon/cm/kernel.c", "daemon/rnic/verbs/reaper.h"): "the kernel takes its time there too",
    ("daemon/host/config.h", "daemon/policy/rules.h"): "the configuration has the rules",
    ("daemon/host/config.h", "daemon/policy/shorts.h"): "the configuration has what short connections are",
}
# May include everything; no other directory may include them.
OUTSIDE = ("bench", "examples", "tests")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)


def includes(files):
    """(file, line number, header) for each header of the tree that a file includes."""
    for path in sorted(files):
        if not path.endswith((".c", ".h")) or path.split("/")[0] in OUTSIDE:
            continue
        with open(os.path.join(tap.ROOT, path), encoding="utf-8") as file:
            text = file.read()
        for match in INCLUDE.finditer(text):
            beside = os.path.normpath(os.path.join(os.path.dirname(path), match.group(1)))
            for header in (beside, os.path.normpath(match.group(1))):
                if header in files:
                    yield path, text.count("\n", 0, match.start(1)) + 1, header
                    break


def has_place(directory):
    return directory in INNER or any(directory in row for order in ORDER for row in order)


def may_include(directory):
    """The directories whose headers those of this directory may include."""
    if directory in INNER:
        return {directory, INNER[directory]} | may_include(INNER[directory])
    allowed = {directory}
    for order in ORDER:
        above = set()
        for row in order:
            if directory in row:
                allowed |= above
            above |= set(row)
    return allowed


def fault(path, header):
    """What is wrong with it that this file includes this header; None: nothing."""
    user, used = os.path.dirname(path), os.path.dirname(header)
    if used in may_include(user) or (path, header) in EXCEPTIONS:
        return None
    if used.split("/")[0] in OUTSIDE:
        why = f"nothing of {used}/ is a part of the programs"
    elif used in INNER:
        why = f"{used}/ is for itself only"
    elif user in may_include(used):
        why = f"{used}/ may include {user}/, so not the other way round"
    else:
        why = f"{user}/ may know nothing of {used}/"
    return f"includes {header}: {why}"


def wrong_includes(files, found):
    for path, line, header in found:
        why = has_place(os.path.dirname(path)) and fault(path, header)
        if why:
            yield f"{path}:{line}: {why} (ORDER in scripts/includes.py)"


def without_place(files, found):
    for directory in sorted({os.path.dirname(path) for path in files if path.endswith((".c", ".h"))}):
        if directory.split("/")[0] not in OUTSIDE and not has_place(directory):
            first = min(path for path in files if os.path.dirname(path) == directory)
            yield f"{first}:1: {directory}/ is not in ORDER of scripts/includes.py: put it where its includes allow"


def unused_exceptions(files, found):
    included = {(path, header) for path, line, header in found}
    for path, header in sorted(EXCEPTIONS):
        if (path, header) not in included:
            yield f"{path}:1: does not include {header}: take the exception out of scripts/includes.py"
        elif os.path.dirname(header) in may_include(os.path.dirname(path)):
            yield f"{path}:1: may include {header}: take the exception out of scripts/includes.py"


CHECKS = (
    ("directories include each other one way", wrong_includes),
    ("every directory has its place in the order", without_place),
    ("every exception to the order is needed", unused_exceptions),
)


def main():
    files = set(tap.git_files())
    found = list(includes(files))
    return 0 if tap.report([(what, check(files, found)) for what, check in CHECKS]) else 1


if __name__ == "__main__":
    sys.exit(main())
