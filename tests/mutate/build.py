# SPDX-License-Identifier: MIT
"""Build an object with a mutant in it and the test programs that contain the object, and run these programs.

Tests have the names that they have in lists: unit/test_cdc, preload/test_calls, libsmcr/test_info, sim, rnic-sim and
smbd-sim with their arguments, and san/ before any of them for the build with sanitizers. bats/exec and bats/smcr-run run
programs under smcr-run, with the library itself.
"""
import collections
import glob
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time

from mutants import Problem

Outcome = collections.namedtuple("Outcome", "failed how time")
# Seconds of processor time, and by the clock.
Time = collections.namedtuple("Time", "cpu wall")

# A test counts as one that does not end after PATIENCE times the time that it takes without a mutant, plus a constant.
PATIENCE = 6
MORE = Time(8, 60)
MORE_SANITIZED = Time(30, 180)
NOTHING_KNOWN = Time(10, 60)
MEMORY = 2 << 30
# Folders of test programs below tests/. Those of the libraries contain every object of the library.
FOLDERS = ("unit", "preload", "libsmcr")
LIBRARIES = ("preload", "libsmcr")
BATS = ("bats/exec", "bats/smcr-run")
ARCHIVES = ("testlib", "daemon", "rnic", "smcr", "smbdirect", "rpcrdma", "proto")
# The simulators: their sources, and the archives with which they are linked.
Simulator = collections.namedtuple("Simulator", "binary sources archives")
SIMULATORS = {
    "sim": Simulator("bin/smcr-sim", ("tests/sim/*.c",), ("testlib", "smcr", "proto")),
    "rnic-sim": Simulator("bin/rnic-sim", ("tests/rnicsim/*.c", "tests/sim/clock.c", "tests/sim/crash.c", "tests/sim/prng.c"),
                          ("testlib", "rnic", "proto")),
    "smbd-sim": Simulator("bin/smbd-sim", ("tests/smbdsim/*.c",), ("testlib", "smbdirect", "proto")),
}


def make(*arguments):
    command = ["make", "--no-print-directory", *arguments]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise Problem(f"{shlex.join(command)} failed:\n{done.stdout[-4000:]}")
    return done.stdout


class Build:
    """A build folder, with whose objects and archives the programs with mutants are linked."""

    def __init__(self, folder, variables, jobs):
        self.folder = folder
        self.variables = [f"B={folder}", *variables]
        self.jobs = jobs
        self.sanitized = "SAN=1" in variables
        self.reference = {}
        self.lock = threading.Lock()
        settings = dict(line.split("=", 1) for line in make(*self.variables, "-s", "mutate-settings").splitlines() if "=" in line)
        unwanted = {"-MMD", "-MP", "-Werror", "-g"}
        self.compiler, self.library_compiler = (
            [word for word in shlex.split(settings[name]) if word not in unwanted] + ["-g0", "-w"]
            for name in ("compile", "compile library")
        )
        self.linker, self.library_linker = shlex.split(settings["link"]), shlex.split(settings["link library"])
        self.libraries = shlex.split(settings["libs"])
        self.few_libraries = shlex.split(settings["libs of libraries"])
        self.objects = {name: shlex.split(settings[f"objects {name}"]) for name in (*LIBRARIES, "bats", "smcr-run")}
        self.options = {name[5:]: shlex.split(words) for name, words in settings.items() if name.startswith("link ")}

    def prepare(self, programs):
        """Build the archives with which programs are linked."""
        targets = [f"{self.folder}/lib/{name}.a" for name in ARCHIVES]
        for program in sorted(programs):
            targets += self.own_objects(program)
        make(*self.variables, f"-j{self.jobs}", *targets)

    def own_objects(self, program):
        if program in BATS:
            return [f"{self.folder}/{name}" for name in ("bin/smcr-run", "lib/libsmcr-preload.so", "tests/programs/exec_ways")]
        sources = [f"tests/{program}.c"]
        if program in SIMULATORS:
            sources = [path for pattern in SIMULATORS[program].sources for path in glob.glob(pattern)]
        own = [f"{self.folder}/obj/{source[:-2]}.o" for source in sorted(sources)]
        return own + self.objects.get(os.path.dirname(program), [])

    def compile(self, path, text, target, for_library=False):
        """Compile a text as if it were the source `path`. @return whether it compiles"""
        source = f'#line 1 "{path}"\n{text}'
        command = [*(self.library_compiler if for_library else self.compiler), "-x", "c", "-c", "-o", target, "-"]
        done = subprocess.run(command, input=source, stderr=subprocess.DEVNULL, text=True, check=False)
        return done.returncode == 0

    def digest(self, target):
        with open(target, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def unchanged(self, path, target):
        """Is the mutant's object equal to that of the source? @return that, and the object's digest"""
        with self.lock:
            if path not in self.reference:
                with open(path, encoding="utf-8") as file:
                    if not self.compile(path, file.read(), target + ".reference"):
                        raise Problem(f"{path} does not compile")
                self.reference[path] = self.digest(target + ".reference")
        digest = self.digest(target)
        return digest == self.reference[path], digest

    def link_installed(self, path, mutated, target):
        """Make a folder of programs that has smcr-run and the library with the mutant."""
        replaced = f"{self.folder}/obj/{path[:-2]}.o" if mutated else None
        parts = {"lib/libsmcr-preload.so": (self.library_linker, self.objects["bats"], ["-ldl"]),
                 "bin/smcr-run": (self.linker, self.objects["smcr-run"], [f"{self.folder}/lib/proto.a"])}
        shutil.rmtree(target, ignore_errors=True)
        for name in ("bin", "lib"):
            os.makedirs(f"{target}/{name}")
        os.symlink(os.path.abspath(f"{self.folder}/tests"), f"{target}/tests")
        for name, (linker, objects, libraries) in parts.items():
            if replaced not in objects:
                shutil.copy(f"{self.folder}/{name}", f"{target}/{name}")
                continue
            inputs = [mutated if o == replaced else o for o in objects]
            self.run_linker([*linker, "-o", f"{target}/{name}", *inputs, *libraries])

    def link(self, program, path, mutated, target):
        """Link a program. A mutant's object takes the place of the object of the source `path`; both may be None."""
        if program in BATS:
            self.link_installed(path, mutated, target)
            return
        folder = os.path.dirname(program)
        names = ARCHIVES
        libraries = self.libraries
        if program in SIMULATORS:
            names = SIMULATORS[program].archives
        elif folder in LIBRARIES:
            names, libraries = ("testlib", "proto"), self.few_libraries
        replaced = f"{self.folder}/obj/lib-test/{path[:-2]}.o" if mutated else None
        # An object that is named comes before those of the archives.
        inputs = [mutated] if mutated else []
        inputs += [o for o in self.own_objects(program) if o != replaced]
        inputs += ["-Wl,--start-group", *(f"{self.folder}/lib/{name}.a" for name in names), "-Wl,--end-group"]
        options = self.options.get(f"unit/{program}" if program in SIMULATORS else program, ())
        self.run_linker([*self.linker, *options, "-o", target, *inputs, *libraries])

    def run_linker(self, command):
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise Problem(f"cannot link:\n{shlex.join(command)}\n{done.stderr[-2000:]}")


def split_test(test):
    """Parse a test's name. @return whether it is sanitized, its program, its arguments"""
    words = shlex.split(test)
    sanitized = words[0].startswith("san/")
    program = words[0][4:] if sanitized else words[0]
    known = os.path.dirname(program) in FOLDERS and os.path.exists(f"tests/{program}.c")
    if program not in SIMULATORS and program not in BATS and not known:
        raise Problem(f"there is no test {program}: none of {', '.join((*SIMULATORS, *BATS))}, nor FOLDER/NAME of a "
                      f"tests/FOLDER/NAME.c in {', '.join(FOLDERS)}")
    return sanitized, program, words[1:]


def environment_of(folder, sanitized, extra=()):
    environment = dict(os.environ, TMPDIR=folder, CMOCKA_MESSAGE_OUTPUT="STDOUT", **dict(extra))
    environment.pop("SMCR_PROOFS", None)
    if sanitized:
        environment["ASAN_OPTIONS"] = f"hard_rss_limit_mb={MEMORY >> 20}"
    return environment


def run_test(program, binary, arguments, sanitized, ordinary, environment):
    """Run a test up to its first failure. `ordinary` is the time that it takes without a mutant."""
    command = [os.path.abspath(binary), *arguments]
    if program in BATS:
        environment = dict(environment, HOSTS_BUILD=command[0])
        command = ["bats", "--tap", f"tests/{program}.bats"]
    more = MORE_SANITIZED if sanitized else MORE
    cpu, wall = (int(PATIENCE * usual + extra) for usual, extra in zip(ordinary, more))
    limits = [f"--cpu={cpu}", "--core=0", *([] if sanitized else [f"--as={MEMORY}"])]
    began = time.monotonic()
    process = subprocess.Popen(
        ["prlimit", *limits, *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env=environment, start_new_session=True,
    )
    late = threading.Event()

    def stop():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def expire():
        late.set()
        stop()

    timer = threading.Timer(wall, expire)
    timer.start()
    how = None
    for line in process.stdout:
        if how is None and (line.startswith("not ok") or "[  FAILED  ]" in line):
            how = line.strip()
            stop()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status = os.waitstatus_to_exitcode(status)
    timer.cancel()
    stop()  # end processes that the test may have left
    if late.is_set():
        how = f"no end after {wall} seconds"
    elif how is None and status != 0:
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    return Outcome(how is not None, how, Time(usage.ru_utime + usage.ru_stime, time.monotonic() - began))
