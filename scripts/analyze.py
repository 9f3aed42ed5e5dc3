#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Static analysis: gcc -fanalyzer and clang-tidy over the sources of the programs and libraries.

usage: analyze.py [--jobs N] [--tool gcc|clang-tidy] [FILE..]     all files if none is named

COMPILE has the compiler and its options (`make analyze` sets it). Findings are compared with
tests/analyze/explained.list. A finding that no entry explains is printed, and the script fails. When
both tools have looked at all files, an entry that explains no finding is an error too.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LIST = "tests/analyze/explained.list"
DIRECTORIES = ("daemon", "proto", "lib", "cli")
NOT_FOR_HERE = "daemon/rendezvous/bpf/"  # BPF programs
FINDING = re.compile(r"^(?:(?P<file>[^:\s]+):(?P<line>\d+):(?:\d+:)?|cc1:) "
                     r"(?:warning|error): (?P<text>.*?)(?: \[CWE-\d+\])?(?: \[(?P<checker>[^]]+)\])?$")

Finding = collections.namedtuple("Finding", "file line checker source text")


class Entry:
    """An entry of the list. '*' stands for anything in each of its three patterns."""

    def __init__(self, file, checker):
        self.file, self.checker, self.source, self.reason = file, checker, None, None
        self.used = 0

    def explains(self, finding):
        return all(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), value)
                   for pattern, value in ((self.file, finding.file), (self.checker, finding.checker),
                                          (self.source, finding.source)))


def read_entries():
    entries = []
    with open(os.path.join(ROOT, LIST), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("\t"):
                entries[-1].source = line.strip()
            elif line.startswith("because: "):
                entries[-1].reason = line
            elif len(line.split()) == 2:
                entries.append(Entry(*line.split()))
            else:
                sys.exit(f"{LIST}:{number}: 'FILE CHECKER', a line of source behind a tab, or 'because: '")
    for entry in entries:
        if entry.source is None or entry.reason is None:
            sys.exit(f"{LIST}: {entry.file} {entry.checker}: no line of source, or no reason")
    return entries


def sources():
    found = []
    for directory in DIRECTORIES:
        for path, _, names in os.walk(os.path.join(ROOT, directory)):
            found += [os.path.relpath(os.path.join(path, name), ROOT) for name in names if name.endswith(".c")]
    return sorted(name for name in found if not name.startswith(NOT_FOR_HERE))


def source_line(file, line):
    try:
        with open(os.path.join(ROOT, file), encoding="utf-8") as lines:
            return lines.read().split("\n")[line - 1].strip()
    except (OSError, IndexError):
        return ""


def command(tool, file):
    words = shlex.split(os.environ["COMPILE"])
    flags = [word for word in words[1:] if word not in ("-MMD", "-MP", "-Werror")]
    if tool == "gcc":
        return [words[0], *flags, "-fanalyzer", "-c", file, "-o", os.devnull]
    return ["clang-tidy", "--quiet", file, "--", *(flag for flag in flags if not flag.startswith("-W"))]


def analyze(job):
    """The findings of one tool in one file, and an error message if the tool failed."""
    tool, file = job
    done = subprocess.run(command(tool, file), cwd=ROOT, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})
    findings = set()
    for line in (done.stdout + (done.stderr if tool == "gcc" else "")).split("\n"):
        match = FINDING.match(line)
        if not match:
            continue
        where = os.path.relpath(os.path.join(ROOT, match["file"]), ROOT) if match["file"] else file
        number = int(match["line"] or 0)
        findings.add(Finding(where, number, (match["checker"] or "error").removeprefix("-W").split(",")[0],
                             source_line(where, number) if number else "", match["text"]))
    broken = done.returncode and not findings
    return findings, f"{tool} {file}: {done.stderr.strip()}" if broken else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--tool", choices=("gcc", "clang-tidy"))
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    entries = read_entries()
    tools = [options.tool] if options.tool else ["gcc", "clang-tidy"]
    files = options.files or sources()
    findings, troubles = set(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found, trouble in pool.map(analyze, [(tool, file) for tool in tools for file in files]):
            findings |= found
            troubles += [trouble] if trouble else []
    open_findings = []
    for finding in sorted(findings):
        entry = next((entry for entry in entries if entry.explains(finding)), None)
        if entry:
            entry.used += 1
        else:
            open_findings.append(finding)
    for finding in open_findings:
        print(f"{finding.file}:{finding.line}: {finding.text} [{finding.checker}]\n\t{finding.source}")
    stale = [] if options.tool or options.files else [entry for entry in entries if not entry.used]
    for entry in stale:
        print(f"{LIST}: explains nothing any more: {entry.file} {entry.checker}: {entry.source}")
    print(*troubles, sep="\n", end="\n" if troubles else "")
    print(f"{len(files)} files, {len(findings)} findings: {len(findings) - len(open_findings)} explained, "
          f"{len(open_findings)} open")
    return 1 if open_findings or stale or troubles else 0


if __name__ == "__main__":
    sys.exit(main())
