#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""openmetrics.py [NAME..]: is standard input OpenMetrics, to its strict grammar?

Prints NAME, LABELS and VALUE of each sample; of these names only, if there are any. Status 1: it is not;
77: there is no parser.
"""
import sys

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("python3-prometheus-client is missing", file=sys.stderr)
    sys.exit(77)

try:
    families = list(text_string_to_metric_families(sys.stdin.read()))
except ValueError as error:
    print(error, file=sys.stderr)
    sys.exit(1)

for family in families:
    if not family.documentation or family.type == "unknown":
        print(f"{family.name} has no HELP or TYPE", file=sys.stderr)
        sys.exit(1)
    for sample in family.samples:
        if len(sys.argv) < 2 or sample.name in sys.argv[1:]:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            print(sample.name, labels or "-", sample.value)
