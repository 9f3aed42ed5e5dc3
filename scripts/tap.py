# SPDX-License-Identifier: MIT
"""What the scripts that check the whole tree have in common: its files, and how they report."""
import os
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def git_files():
    """The paths of the files that git knows and that are there, from the root of the tree."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True)
    return [path for path in done.stdout.splitlines() if os.path.isfile(os.path.join(ROOT, path))]


def report(checks):
    """Print TAP for pairs of what has to be true, and a line for each place where it is not.
    @return True if nothing is wrong"""
    right = True
    print(f"1..{len(checks)}")
    for number, (what, wrong) in enumerate(checks, 1):
        wrong = list(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - {what}")
        for line in wrong:
            print(f"# {line}")
        right = right and not wrong
    return right
