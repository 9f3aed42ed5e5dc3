# SPDX-License-Identifier: MIT
"""Mutants, and the lists of mutants that the tree keeps (*.mutants).

An entry of a list names a source and one of its functions (none at file scope), the text that is replaced, the new
text, and either the test that notices the mutant or the reason why no test can:

    daemon/rnic/soft/hold.c soft_hold_release
    -	*hold->budget += sizeof(*held) + held->len;
    +	;
    killed by: unit/test_soft_hold

    proto/smcr/clc.c find
    -	i < n
    +	i <= n
    equivalent: the last entry is always the one looked for

The text must occur once in the function; how it is broken into lines does not matter. Lines with # are comments.
"""
import collections
import os
import re

import operators

Mutant = collections.namedtuple("Mutant", "path function line before after mutated")
Entry = collections.namedtuple("Entry", "where mutant killer reason")


class Problem(Exception):
    """An error in a list, in the tree, or in the arguments."""


def read_source(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def identity(text):
    """Sources are the same if only white space differs."""
    return " ".join(text.split())


def body_of(text, function, path):
    """The places of a function's braces in a source."""
    tokens = operators.tokens_of(text)
    for found in operators.functions_of(tokens):
        if found.name == function:
            return tokens[found.start].start, tokens[found.end].end
    raise Problem(f"{path} has no function {function}")


def occurrences(text, wanted, start, end):
    pattern = r"\s+".join(re.escape(word) for word in wanted.split())
    if re.match(r"\w", wanted):
        pattern = r"\b" + pattern
    return [(m.start(), m.end()) for m in re.compile(pattern).finditer(text, start, end)]


def place(path, function, before, after):
    """The mutant that replaces the only occurrence of `before`."""
    text = read_source(path)
    start, end = body_of(text, function, path) if function else (0, len(text))
    found = occurrences(text, before, start, end)
    if len(found) != 1:
        raise Problem(f"{path} {function}: the text occurs {len(found)} times, not once: {before}")
    start, end = found[0]
    return Mutant(path, function, text.count("\n", 0, start) + 1, before, after, text[:start] + after + text[end:])


def of_change(path, text, change):
    """A systematic mutant, described by as many whole lines as make its text unique."""
    low, high = body_of(text, change.function, path) if change.function else (0, len(text))
    first, last = text.rfind("\n", 0, change.start) + 1, text.find("\n", change.end)
    while True:
        before = text[first:last]
        if len(occurrences(text, before.strip(), low, high)) == 1:
            break
        first, last = text.rfind("\n", 0, max(first - 1, 0)) + 1, text.find("\n", last + 1)
    after = text[first : change.start] + change.new + text[change.end : last]
    mutated = text[: change.start] + change.new + text[change.end :]
    line = text.count("\n", 0, change.start) + 1
    return Mutant(path, change.function, line, before.strip(), after.strip(), mutated)


def as_entry(mutant):
    """A mutant in the form of a list."""
    lines = [f"{mutant.path} {mutant.function}".rstrip()]
    lines += ["-\t" + line.strip() for line in mutant.before.splitlines()]
    lines += ["+\t" + line.strip() for line in mutant.after.splitlines()]
    return "\n".join(lines)


def finished(where, head, before, after, verdict):
    if not head or not before or not after or not verdict:
        raise Problem(f"{where}: an entry needs a source, a line with -, one with +, and a verdict")
    kind, _, words = verdict.partition(": ")
    if kind not in ("killed by", "equivalent") or not words:
        raise Problem(f"{where}: neither 'killed by: TEST' nor 'equivalent: REASON': {verdict}")
    path, _, function = head.partition(" ")
    try:
        mutant = place(path, function, "\n".join(before), "\n".join(after))
    except (Problem, OSError) as problem:
        raise Problem(f"{where}: {problem}; change the entry, or take it out with the code") from problem
    return Entry(where, mutant, words if kind == "killed by" else None, words if kind == "equivalent" else None)


def read_list(path):
    """Read a list. @return its valid entries, and what is wrong with the others"""
    entries, problems = [], []
    block, start = [], 0
    with open(path, encoding="utf-8") as lines:
        numbered = [*enumerate(lines, 1), (0, "")]
    for number, line in numbered:
        line = line.rstrip("\n")
        if line.startswith("#"):
            continue
        if line:
            start = start if block else number
            block.append(line)
            continue
        if not block:
            continue
        before = [text[1:].strip() for text in block if text[0] == "-"]
        after = [text[1:].strip() for text in block if text[0] == "+"]
        rest = [text for text in block if text[0] not in "-+"]
        where = f"{os.path.relpath(path)}:{start}"
        try:
            if len(rest) < 2:
                raise Problem(f"{where}: an entry needs a source and a verdict")
            entries.append(finished(where, rest[0], before, after, " ".join(rest[1:])))
        except Problem as problem:
            problems.append(str(problem))
        block = []
    return entries, problems
