#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare what programs found over plain TCP, over fallback and over SMC-R (see run).

usage: report.py --results DIRECTORY --modes "plain smcr.." [--write FILE] PROGRAM..

Prints TAP, a line for each program, and the table. With --write the table is also written to a file, with all
programs that have results. Exit status 1: there is a difference that no line of expected.list allows, or a
line there is no longer true.
"""
import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ALL_MODES = ["plain", "one-sided", "declined", "smcr"]


class Difference:
    def __init__(self, mode, name, plain, value):
        self.mode, self.name, self.plain, self.value = mode, name, plain, value

    def __str__(self):
        return f"{self.mode}: {self.name}: {self.value} (plain: {self.plain})"


class Mode:
    """The results of one run of a program in one mode."""

    def __init__(self, directory):
        self.ran = (directory / "results").exists()
        self.results = {}
        self.repeated = []
        for line in lines(directory / "results"):
            name, _, value = line.partition("\t")
            if name in self.results:
                self.repeated.append(name)
            self.results[name] = value
        self.faults = lines(directory / "faults")
        self.counters = {}
        for line in lines(directory / "counters"):
            words = line.split()
            self.counters[words[0]] = (int(words[2]), int(words[4]))

    def least(self, which):
        """The smaller count of the two daemons, of established connections or of fallbacks."""
        return min((c[which] for c in self.counters.values()), default=0)


class Expected:
    """A line of expected.list: program | modes | result | value | reason. Value *: any other than TCP's.
    ~ before the value: TCP's value is allowed too, because threads or hosts race."""

    def __init__(self, number, fields):
        self.number = number
        self.program, modes, self.name, value, self.reason = fields
        self.races = value.startswith("~")
        self.value = value.removeprefix("~")
        self.modes = modes.split(",")

    def covers(self, difference):
        return (difference.mode in self.modes and difference.name == self.name
                and self.value in ("*", difference.value.strip()))


def lines(path):
    try:
        return path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def read_expected():
    found = []
    for number, line in enumerate(lines(HERE / "expected.list"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 5 or not all(fields) or set(fields[1].split(",")) - set(ALL_MODES):
            sys.exit(f"report: expected.list line {number}: not PROGRAM | MODES | RESULT | VALUE | REASON")
        found.append(Expected(number, fields))
    return found


def settings(program):
    """ABOUT, NO_SMCR and PACKAGES of a program's file."""
    out = subprocess.run(
        ["bash", "-c", '. "$1"; printf "%s\\n" "$ABOUT" "${NO_SMCR:-}" "${PACKAGES[@]}"', "-",
         str(HERE / "programs" / f"{program}.bash")], capture_output=True, text=True, check=True)
    about, no_smcr, *packages = out.stdout.splitlines()
    return about, no_smcr, packages


def version(package):
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True,
                         text=True, check=False)
    return out.stdout.strip() or "?"


class Program:
    def __init__(self, name, results, modes, expected):
        self.name = name
        self.about, self.no_smcr, packages = settings(name)
        self.version = f"{packages[0]} {version(packages[0])}"
        # Without "plain" among the modes, the results are compared with those of an older run.
        self.modes = {m: Mode(results / name / m) for m in ALL_MODES if m in modes or m == "plain"}
        self.plain_again = Mode(results / name / "plain-again")
        self.expected = [e for e in expected if e.program == name]
        self.differences = []
        self.explained = []
        self.problems = []
        self.judge()

    def judge(self):
        # If only some modes were run, the others are shown as "-".
        self.modes = {m: run for m, run in self.modes.items() if run.ran or m in ("plain", "smcr")}
        for mode, run in self.modes.items():
            self.problems += [f"{mode}: {fault}" for fault in run.faults]
            self.problems += [f"{mode}: two results are named {name}" for name in run.repeated]
            if not run.results:
                self.problems.append(f"{mode}: no results")
        smcr, declined = self.modes.get("smcr"), self.modes.get("declined")
        if smcr and self.no_smcr and smcr.least(0) > 0:
            self.problems.append("smcr: connections were SMC-R: take out NO_SMCR")
        if smcr and not self.no_smcr and smcr.least(0) == 0:
            self.problems.append("smcr: no connection was SMC-R")
        if declined and not self.no_smcr and declined.least(1) == 0:
            self.problems.append("declined: no rendezvous fell back")
        plain = self.modes["plain"]
        for mode, run in self.modes.items():
            for name in list(plain.results) + [n for n in run.results if n not in plain.results]:
                was, value = plain.results.get(name, "-"), run.results.get(name, "-")
                if value not in (was, self.plain_again.results.get(name)):
                    self.differences.append(Difference(mode, name, was, value))
        for difference in self.differences:
            line = next((e for e in self.expected if e.covers(difference)), None)
            if line:
                self.explained.append((difference, line))
            else:
                self.problems.append(str(difference))
        for line in self.expected:
            for mode in () if line.races else line.modes:
                if mode in self.modes and not any(
                        e is line and d.mode == mode for d, e in self.explained):
                    self.problems.append(
                        f"{mode}: {line.name} is no longer {line.value}: take line {line.number} "
                        "out of expected.list")

    def cell(self, mode):
        run = self.modes.get(mode)
        if not run or not run.ran:
            return "-"
        differs = sum(d.mode == mode for d in self.differences)
        if run.faults:
            return "FAULT"
        if mode == "plain":
            return str(len(run.results))
        if mode == "smcr" and self.no_smcr:
            return "same, TCP" if not differs else f"{differs} differ, TCP"
        return "same" if not differs else f"{differs} differ"


def print_tap(programs):
    print(f"1..{len(programs)}")
    for number, p in enumerate(programs, 1):
        if p.problems:
            print(f"not ok {number} - {p.name}")
            for problem in p.problems[:50]:
                print(f"#   {problem}")
        else:
            n = p.modes["smcr"].least(0) if "smcr" in p.modes else 0
            print(f"ok {number} - {p.name}: {len(p.modes['plain'].results)} results, "
                  f"{n} connections over SMC-R, {len(p.explained)} expected differences")


def table(programs):
    rows = [["program", "plain", "one-sided", "declined", "SMC-R", "over SMC-R", "differences"]]
    for p in programs:
        unexplained = len(p.differences) - len(p.explained)
        said = f"{len(p.explained)} expected" if p.explained else "none"
        if unexplained:
            said += f", {unexplained} UNEXPECTED"
        smcr = p.modes.get("smcr")
        rows.append([p.name, *(p.cell(m) for m in ALL_MODES), str(smcr.least(0)) if smcr else "-", said])
    return rows


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("# " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths)).rstrip())


def plain_text(text):
    return text.replace("|", "\\|")


def write_document(path, programs):
    head = (HERE / "compat.md.in").read_text()
    out = ["| program | version | what it does | results | one-sided | declined | SMC-R |",
           "|---|---|---|--:|---|---|---|"]
    for p in programs:
        about = plain_text(p.about + (". " + p.no_smcr if p.no_smcr else ""))
        out.append(f"| {p.name} | {p.version} | {about} | {p.cell('plain')} "
                   f"| {p.cell('one-sided')} | {p.cell('declined')} | {p.cell('smcr')} |")
    reasons = {}
    for p in programs:
        for difference, line in p.explained:
            key = (p.name, difference.name, difference.plain, difference.value, line.reason)
            reasons.setdefault(key, []).append(difference.mode)
    differences = [
        f"* **{name}**, {result}: {value} instead of {plain} ({', '.join(modes)}). {reason}"
        for (name, result, plain, value, reason), modes in reasons.items()]
    text = head.replace("@TABLE@", "\n".join(out))
    text = text.replace("@DIFFERENCES@", "\n".join(differences) or "None.")
    path.write_text(text)
    print(f"# {path} is written")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--modes", required=True)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    expected = read_expected()
    files = sorted(f.stem for f in (HERE / "programs").glob("*.bash"))
    unknown = [e for e in expected if e.program not in files]
    for line in unknown:
        print(f"# expected.list line {line.number}: there is no program {line.program}")
    programs = [Program(n, args.results, args.modes.split(), expected) for n in args.program]
    print_tap(programs)
    print_table(table(programs))
    bad = sum(bool(p.problems) for p in programs) + len(unknown)
    if args.write:
        everything = [Program(n, args.results, ALL_MODES, expected) for n in files]
        missing = [p.name for p in everything
                   if not p.modes["plain"].ran or not p.modes["smcr"].ran]
        wrong = [p.name for p in everything if p.problems and p.name not in missing]
        for what, names in (("have not been run", missing), ("have problems", wrong)):
            if names:
                print(f"# {args.write} is not written: {what}: {' '.join(names)}")
                bad += 1
        if not missing and not wrong:
            write_document(args.write, everything)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
