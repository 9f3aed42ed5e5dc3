#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print the results of scripts/bench.sh as tables in Markdown, and as plots (by gnuplot).

usage: bench-report.py [--plot DIRECTORY] FILE

FILE has lines "MTU ROUND MEASUREMENT WAY VALUE BUSY SECONDS": BUSY is the processor time of the whole
machine, SECONDS how long the measurement took. A ratio is computed from the medians over all rounds.
Its range is the range of the ratios of the single rounds.
"""
import argparse
import collections
import os
import shutil
import statistics
import subprocess
import sys

Kind = collections.namedtuple("Kind", "title unit higher_is_better cost")

# cost: the unit for which processor time is reported.
KINDS = {
    "bulk": Kind("bulk, 1 stream to the server", "MB/s", True, "GB"),
    "bulk-down": Kind("bulk, 1 stream from the server", "MB/s", True, "GB"),
    "bulk-8": Kind("bulk, 8 streams to the server", "MB/s", True, "GB"),
    "bulk-8-down": Kind("bulk, 8 streams from the server", "MB/s", True, "GB"),
    "rtt-1": Kind("round trip, 1 byte", "us", False, None),
    "rtt-1-p99": Kind("round trip, 1 byte, 99 %", "us", False, None),
    "rtt-64": Kind("round trip, 64 bytes", "us", False, None),
    "rtt-64-p99": Kind("round trip, 64 bytes, 99 %", "us", False, None),
    "rtt-4096": Kind("round trip, 4 KiB", "us", False, None),
    "rtt-4096-p99": Kind("round trip, 4 KiB, 99 %", "us", False, None),
    "ask": Kind("a connection a request", "us", False, None),
    "setup": Kind("connections set up", "1/s", True, None),
    "plain": Kind("a plain connection with a request", "us", False, None),
    "redis": Kind("redis GET, 50 clients", "1/s", True, "request"),
    "redis-16": Kind("redis GET, 50 clients, pipeline of 16", "1/s", True, "request"),
    "nginx-1k": Kind("nginx, wrk with 32 connections, 1 kB", "1/s", True, "request"),
    "nginx-1m": Kind("nginx, wrk with 32 connections, 1 MB", "1/s", True, "request"),
    "smb-write": Kind("SMB, written in pieces of 1 MiB", "MB/s", True, "GB"),
    "smb-read": Kind("SMB, read in pieces of 1 MiB", "MB/s", True, "GB"),
    "smb-small": Kind("SMB, random reads of 4 KiB", "1/s", True, "request"),
    "memory": Kind("memory of both daemons, an idle connection", "KiB", False, None),
}
WAYS = {
    "smcr": "SMC-R",
    "smbdirect": "SMB Direct",
    "fallback": "fallback",
    "tcp-to-smcr": "fallback, smcr-run at the server only",
}

Sample = collections.namedtuple("Sample", "value cost")


def cost_of(kind, value, busy, seconds):
    """Processor seconds for a GB, or microseconds for a request."""
    if kind.cost == "GB":
        return busy / (value * seconds / 1000)
    if kind.cost == "request":
        return busy / (value * seconds) * 1e6
    return None


def read(path):
    """{mtu: {(measurement, way): [Sample of each round]}}"""
    samples = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            mtu, _, name, way, value, busy, seconds = line.split()
            value = float(value)
            cost = cost_of(KINDS[name], value, float(busy), float(seconds))
            samples[int(mtu)][name, way].append(Sample(value, cost))
    return samples


def median(samples):
    return statistics.median(s.value for s in samples)


def median_cost(samples):
    costs = [s.cost for s in samples if s.cost is not None]
    return statistics.median(costs) if costs else None


def ratio(tcp, way):
    return median(way) / median(tcp)


def spread(tcp, way):
    ratios = sorted(w.value / t.value for t, w in zip(tcp, way))
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def number(value):
    return "" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def cost_cells(kind, tcp, way):
    if not kind.cost or not tcp:
        return ["", ""]
    unit = "s/GB" if kind.cost == "GB" else "us"
    a, b = median_cost(tcp), median_cost(way)
    return [f"{a:.2f}, {b:.2f} {unit}", f"{b / a:.2f}"]


def table(samples):
    rows = [
        ["", "unit", "TCP", "this", "ratio", "of the rounds", "processor: TCP, this", "ratio"],
        ["---", "---", "--:", "--:", "--:", "---", "---", "--:"],
    ]
    for way, title in WAYS.items():
        for name, kind in KINDS.items():
            mine, tcp = samples.get((name, way)), samples.get((name, "tcp"))
            if not mine:
                continue
            row = [f"{title}: {kind.title}", kind.unit, number(median(tcp)) if tcp else "", number(median(mine))]
            row += [f"{ratio(tcp, mine):.2f}", spread(tcp, mine)] if tcp else ["", ""]
            rows.append(row + cost_cells(kind, tcp, mine))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def speed(kind, tcp, mine):
    """How many times as fast as TCP."""
    return ratio(tcp, mine) if kind.higher_is_better else 1 / ratio(tcp, mine)


def plot(mtu, samples, directory):
    """Write bench-MTU.svg: a bar for each measurement; the line marks TCP."""
    bars = []
    for name, kind in KINDS.items():
        mine, tcp = samples.get((name, "smcr")), samples.get((name, "tcp"))
        if mine and tcp:
            bars.append((kind.title, speed(kind, tcp, mine)))
    if not bars:
        return
    bars.reverse()
    path = os.path.join(directory, f"bench-{mtu}.svg")
    data = "\n".join(f'"{title}" {value:.3f}' for title, value in bars)
    script = f"""
set terminal svg size 900,{90 + 28 * len(bars)} background rgb "white"
set output "{path}"
set title "Speed of SMC-R over the software RNIC, TCP over the same veth pair = 1 (MTU {mtu})"
set xrange [0:*]
set yrange [-0.7:{len(bars)}]
set grid xtics
set lmargin 42
set arrow from 1, graph 0 to 1, graph 1 nohead lw 2 lc rgb "#b03030" front
$bars << END
{data}
END
plot $bars using ($2/2):0:($2/2):(0.35):ytic(1) with boxxyerror fs solid lc rgb "#4878a8" notitle, \\
     $bars using 2:0:(sprintf(" %.2f", $2)) with labels left notitle
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", metavar="DIRECTORY")
    parser.add_argument("file")
    args = parser.parse_args()
    if args.plot and not shutil.which("gnuplot"):
        sys.exit("bench-report.py: plots need gnuplot: apt-get install gnuplot-nox")
    for mtu, samples in sorted(read(args.file).items()):
        print(f"MTU {mtu}, {len(next(iter(samples.values())))} rounds:\n\n{table(samples)}\n")
        if args.plot:
            plot(mtu, samples, args.plot)


if __name__ == "__main__":
    main()
