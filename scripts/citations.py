#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Find which code names which requirement of the protocols.

usage: citations.py            check, as TAP
       citations.py ID..       print where these are named

Reads the lists of requirements that conformance.py names, docs/uncited.tsv (ids that have no place in the code, with the reasons),
docs/rfc7609-readings.md and the sources. Code names a requirement by its full id, so that `git grep -w
CDC-12` finds it. Neither "CDC-1..17" nor "CDC-6, 10" names anything. A reading (A12) is named by code or
by a requirement.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
import conformance  # noqa: E402
import tap  # noqa: E402

UNCITED = "docs/uncited.tsv"
READINGS = "docs/rfc7609-readings.md"
CODE = ("cli", "daemon", "include", "lib", "proto")
OTHERS = ("docs", "tests")
WRONG_ON_PURPOSE = "tests/unit/test_proves.c"
SUFFIXES = (".c", ".h", ".md", ".bash", ".bats", ".mutants", ".tsv")

ANY_ID = rf"\b(?:{'|'.join(conformance.GROUPS)})-\d+"
ID = re.compile(ANY_ID + r"\b")
READING = re.compile(r"\bA\d+\b")
SHORT = re.compile(ANY_ID + r"(?:\.\.\d+|(?:/|, ?| and | or | to )\d+\b(?![.\d]))")


def sources(folders):
    """The files below these folders of the tree."""
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(conformance.ROOT, folder))):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(path, name), conformance.ROOT)


def found(pattern, folders):
    """(what, file, line number) for each place where the pattern is."""
    for path in sources(folders):
        with open(os.path.join(conformance.ROOT, path), encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                for match in pattern.finditer(line):
                    yield match.group(), path, number


def read_uncited(requirements):
    uncited = {}
    for id_, reason in conformance.rows(UNCITED, 2):
        if id_ not in requirements or id_ in uncited or not reason:
            raise conformance.Problem(f"{UNCITED}: {id_}: unknown, twice, or without reason")
        uncited[id_] = reason
    return uncited


def unnamed(requirements, uncited):
    """Requirements that no code names, and named ones that are listed as uncited."""
    named = {id_ for id_, _, _ in found(ID, CODE)}
    for id_ in requirements:
        if id_ not in named and id_ not in uncited:
            yield f"{id_}: no code names it: name it where its rule is, or say in {UNCITED} why not"
        if id_ in named and id_ in uncited:
            yield f"{id_}: code names it, and {UNCITED} says that it has no place there"


def unnamed_readings(requirements):
    named = {a for a, _, _ in found(READING, CODE)}
    for requirement in requirements.values():
        named.update(READING.findall(requirement.section + requirement.text))
    with open(os.path.join(conformance.ROOT, READINGS), encoding="utf-8") as lines:
        for line in lines:
            row = READING.match(line, 2) if line.startswith("| A") else None
            if row and row.group() not in named:
                yield f"{READINGS}: {row.group()}: neither code nor a requirement names it"


def shortened():
    for what, path, number in found(SHORT, CODE):
        yield f"{path}:{number}: {what}: write each id out"


def unknown(requirements):
    for id_, path, number in found(ID, CODE + OTHERS):
        if id_ not in requirements and path != WRONG_ON_PURPOSE:
            yield f"{path}:{number}: {id_} is no requirement"


def check(requirements, uncited):
    """@return True if nothing is wrong"""
    checks = (
        ("code names each requirement", unnamed(requirements, uncited)),
        ("code or a requirement names each reading", unnamed_readings(requirements)),
        ("code writes ids out", shortened()),
        ("each id that is named is a requirement", unknown(requirements)),
    )
    return tap.report(checks)


def main():
    try:
        requirements = conformance.read_requirements()
        uncited = read_uncited(requirements)
    except (OSError, conformance.Problem) as problem:
        print(f"citations.py: {problem}", file=sys.stderr)
        return 1
    if len(sys.argv) == 1:
        return 0 if check(requirements, uncited) else 1
    for id_, path, number in found(ID, CODE):
        if id_ in sys.argv[1:]:
            print(f"{path}:{number}: {id_}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
