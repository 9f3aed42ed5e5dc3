#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Have memory, descriptors and latency stayed what they were? Reads the samples of scripts/endure.sh.

usage: endure-report.py [--plot DIRECTORY] [--grown-mib N] [--slower N] FILE

The first tenth of the run is left out: caches fill, and lists of what was come to their full length. Of what follows
the last tenth is compared with the first. Of memory and latency the medians count, of everything that may be in use
for a moment, such as descriptors, the least. Exit status 1: something has grown. With fewer than 300 samples nothing
is compared. Timers come and go all the time, and are only shown.
"""
import argparse
import csv
import os
import shutil
import statistics
import subprocess
import sys

SAMPLES_MIN = 300
COUNTED = ("descriptors", "connections", "linkgroups", "links", "rmbs", "queue_pairs", "memory_regions", "timers")
LATENCIES = {"ping": "round trip of 64 bytes", "setup": "new connection, to its first answer"}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None  # "-": nothing was measured between two samples, or the name of a disturbance


def read(path):
    """Columns by name, without values that are none."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [number(row[name]) for row in rows] for name in (rows[0] if rows else ())}
    return rows, columns


def tenths(values):
    """The first and the last tenth of what is left without the warm-up."""
    values = values[len(values) // 10 :]
    size = len(values) // 10
    return [[v for v in part if v is not None] for part in (values[:size], values[-size:])]


def digits(value):
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def pairs(columns, name, judge):
    first, last = tenths(columns[name])
    return (judge(first), judge(last)) if first and last else (None, None)


def lines(columns, args):
    """(title, first, last, is that right?)"""
    for host in "ab":
        first, last = pairs(columns, f"{host}_resident_kib", statistics.median)
        yield f"host {host}: resident, MiB", first / 1024, last / 1024, last - first <= args.grown_mib * 1024
        for name in COUNTED:
            first, last = pairs(columns, f"{host}_{name}", min)
            yield f"host {host}: {name.replace('_', ' ')}, least", first, last, last <= first or name == "timers"
    for name, title in LATENCIES.items():
        for kind, words in (("median", "median"), ("99", "99 %"), ("worst", "worst")):
            first, last = pairs(columns, f"{name}_{kind}_us", statistics.median)
            if first is None:
                yield f"{title}: {words}", 0, 0, False
            else:
                yield f"{title}: {words}, us", first, last, kind != "median" or last <= first * args.slower


def trend(columns, args):
    """Print a table; False if something has grown."""
    good = True
    print("| | first tenth | last tenth | |\n|---|--:|--:|---|")
    for title, first, last, right in lines(columns, args):
        print(f"| {title} | {digits(first)} | {digits(last)} | {'' if right else 'GROWN'} |")
        good = good and right
    return good


def sums(columns):
    hours = (columns["seconds"][-1] - columns["seconds"][0]) / 3600
    print(f"\n{len(columns['seconds'])} samples in {hours:.2f} hours")
    for host in "ab":
        ticks, made = columns[f"{host}_ticks"], columns[f"{host}_established"]
        busy = (ticks[-1] - ticks[0]) / max(hours, 1e-9) / 3600
        print(f"smcrd on host {host}: {made[-1]:.0f} connections over SMC-R, {busy:.1f} % of a processor")


# ---- the plot

def series(columns, name, factor):
    hours = [(s - columns["seconds"][0]) / 3600 for s in columns["seconds"]]
    return "\n".join(f"{t:.5f} {v * factor:.3f}" for t, v in zip(hours, columns[name]) if v is not None)


def pane(columns, title, curves, log=False):
    """A plot of one size of several columns; curves: (column, title, factor)."""
    data = "".join(f"${name} << END\n{series(columns, name, factor)}\nEND\n" for name, _, factor in curves)
    plots = ", ".join(f"${name} with lines title '{words}'" for name, words, _ in curves)
    scale = "set logscale y\nset yrange [*:*]\n" if log else "unset logscale y\nset yrange [0:*]\n"
    return f"{data}{scale}set title '{title}'\nplot {plots}\n"


def both(column, factor=1):
    return [(f"{host}_{column}", f"host {host}", factor) for host in "ab"]


def latency_pane(columns, name, title):
    curves = [(f"{name}_{kind}_us", words, 1e-3) for kind, words in (("median", "median"), ("99", "99 %"), ("worst", "worst"))]
    return pane(columns, f"{title}, in ms, between two samples", curves, log=True)


def plot(columns, directory):
    panes = [
        pane(columns, "Resident memory of smcrd, MiB", both("resident_kib", 1 / 1024)),
        pane(columns, "Descriptors of smcrd", both("descriptors")),
        pane(columns, "Connections over SMC-R", both("connections")),
        *(latency_pane(columns, name, title[0].upper() + title[1:]) for name, title in LATENCIES.items()),
    ]
    path = os.path.join(directory, "endure.svg")
    script = f"""
set terminal svg size 900,{220 * len(panes)} background rgb "white"
set output "{path}"
set multiplot layout {len(panes)},1
set grid
set key outside right width -2
set lmargin 10
set xlabel 'hours' offset 0,0.8
{"".join(panes)}
unset multiplot
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="DIRECTORY")
    parser.add_argument("--grown-mib", type=float, default=8)
    parser.add_argument("--slower", type=float, default=2)
    parser.add_argument("file")
    args = parser.parse_args()
    if args.plot and not shutil.which("gnuplot"):
        sys.exit("endure-report.py: plots need gnuplot: apt-get install gnuplot-nox")
    rows, columns = read(args.file)
    if not rows:
        sys.exit("endure-report.py: there is no sample")
    good = True
    if len(rows) < SAMPLES_MIN:
        print(f"{len(rows)} samples are too few for a trend")
    else:
        good = trend(columns, args)
    sums(columns)
    if args.plot:
        plot(columns, args.plot)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
