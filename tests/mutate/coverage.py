# SPDX-License-Identifier: MIT
"""Find out which test programs run which lines, so that a mutant is tried only with those that can notice it.

The programs are built with gcov's counters in a separate folder and run once each. The lines that they ran are kept
there until a program is built anew.
"""
import glob
import json
import os
import shutil
import subprocess

import build

# Seconds.
QUICK = 2
# Children of tests end with _exit(), after which gcov would know nothing of the lines that they ran.
FLUSH = """
void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
void __wrap__exit(int status) { __gcov_dump(); __real__exit(status); }
"""


def flags(folder):
    """Options for the linker of the programs that count."""
    os.makedirs(folder, exist_ok=True)
    target = f"{folder}/flush.o"
    if not os.path.exists(target):
        subprocess.run(["cc", "-x", "c", "-c", "-o", target, "-"], input=FLUSH, text=True, check=True)
    return f"--coverage -Wl,--wrap=_exit {target}"


class Coverage:
    def __init__(self):
        self.programs = {}  # name: {"time": t, "failed": how or None, "lines": {path: [numbers]}}
        self.known = {}  # path: lines that have code
        self.ran = {}  # path: line: programs

    def add(self, program, result):
        result["time"] = build.Time(*result["time"])
        self.programs[program] = result
        for path, known in result["known"].items():
            self.known.setdefault(path, set()).update(known)
        if result["failed"]:
            return
        for path, lines in result["lines"].items():
            for line in lines:
                self.ran.setdefault(path, {}).setdefault(line, set()).add(program)

    def focus(self, program, path):
        """The share of this source in the lines that a program runs."""
        lines = self.programs[program]["lines"]
        return len(lines.get(path, ())) / max(1, sum(len(numbers) for numbers in lines.values()))

    def tests_of(self, path, first, last):
        """The programs that run one of these lines, in the order in which they are tried."""
        known = self.known.get(path, set())
        lines = [line for line in range(first, last + 1) if line in known]
        if not lines:  # a line without code belongs to the line with code before it
            lines = [line for line in range(first, 0, -1) if line in known][:1]
        ran = self.ran.get(path, {})
        programs = set().union(*(ran.get(line, set()) for line in lines)) if lines else set()
        return self.ordered(programs, path)

    def tests_of_file(self, path):
        return self.ordered(set().union(*self.ran.get(path, {}).values()) if path in self.ran else set(), path)

    def ordered(self, programs, path):
        """Quick programs first, and of these the programs that run little else than this source."""
        return sorted(programs, key=lambda p: (self.programs[p]["time"].wall > QUICK, -self.focus(p, path), p))


def gcov(counters, folder, paths):
    """Read the counters of a program. @return for each source the lines that ran and the lines that have code"""
    lines, known = {}, {}
    data = glob.glob(f"{counters}/**/*.gcda", recursive=True)
    for file in data:  # the compiler's notes are beside the object, wherever the tree was when it was compiled
        inner = file.rsplit(f"/{folder}/", 1)[1]
        os.symlink(os.path.abspath(f"{folder}/{inner[:-5]}.gcno"), file[:-5] + ".gcno")
    if not data:
        return lines, known
    done = subprocess.run(["gcov", "--json-format", "--stdout", *data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    for document in done.stdout.splitlines():
        for file in json.loads(document)["files"]:
            path = os.path.normpath(file["file"])
            if path not in paths:
                continue
            known.setdefault(path, set()).update(line["line_number"] for line in file["lines"])
            lines.setdefault(path, set()).update(line["line_number"] for line in file["lines"] if line["count"] > 0)
    return {p: sorted(n) for p, n in lines.items()}, {p: sorted(n) for p, n in known.items()}


def measure(program, arguments, binary, folder, paths):
    """Run a program of the build in `folder` once and keep the lines that it ran, unless they are known already."""
    kept = f"{folder}/measured/{program.replace('/', '-')}.json"
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    if os.path.exists(kept) and os.path.getmtime(kept) >= os.path.getmtime(binary):
        with open(kept, encoding="utf-8") as file:
            return json.load(file)
    counters = kept[:-5] + ".counters"
    shutil.rmtree(counters, ignore_errors=True)
    os.makedirs(counters)
    environment = build.environment_of(counters, False, {"GCOV_PREFIX": counters}.items())
    outcome = build.run_test(program, binary, arguments, False, build.NOTHING_KNOWN, environment)
    lines, known = gcov(counters, folder, paths)
    shutil.rmtree(counters)
    result = {"time": outcome.time, "failed": outcome.how, "lines": lines, "known": known}
    with open(kept, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return result
