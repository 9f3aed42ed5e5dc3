#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that everything exists that comments and documents refer to.

usage: references.py            check, as TAP

Reads the files of the tree that git knows. Checks links of Markdown, the headings that they name, and that packages have both;
files, by path or by name alone, and functions, in comments and documents, also "name (file.c)" and the columns "met by" and
"test" of tables; readings (A33), decisions of docs/design.md, and manual pages of the project. A numbered section must name
its standard: a section number alone belongs to a document that the reader does not have. Where the head of a directory
(internal.h) lists its sources, it lists all. citations.py checks requirements (CDC-12).
"""
import fnmatch
import os
import re
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402

PROSE = (".md", ".tsv", ".list", ".mutants", ".conf", ".py", ".sh", ".bash", ".bats", ".pml")
SOURCES = (".c", ".h")
PACKINGS = ("debian/smcrd-doc.install", "packaging/smcrd.spec")
STAND_FOR_ANY = {"name.c", "file.bats", "test_x.c"}
# Functions of systems and other projects that documents name and no code here does.
OF_OTHERS = {"net_rx_action", "pidfd_spawn", "rt_sigprocmask", "sched_setattr"}

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.M)
FILE = re.compile(r"(?<![\w./<>$*{}-])((?:[\w.-]+/)*[\w-]+\.(?:md|c|h|py|bats|bash|pml|tsv|mutants))(?![\w*/{])")
FUNCTION = re.compile(r"(?<![\w./>*<{}-])((?:[a-z0-9]+_)+[a-z0-9]+)\(\)")
PLACED = re.compile(r"\b((?:[a-z0-9]+_)+[a-z0-9]+)(?:\(\))?`? \(`?((?:[\w.-]+/)*[\w-]+\.[ch])`?\)")
TABLE = re.compile(r"(?:^\|.*\n)+", re.M)
COLUMNS = ("met by", "test")
NAME = re.compile(r"(?<![\w/.-])(?:[a-z0-9]+_)+[a-z0-9]+\b(?![/.])")
LISTED = re.compile(r"(?<![\w/])([\w*]+\.c)\b")
LISTING = re.compile(r"^ \*   \w+\.c  ", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
READING = re.compile(r"\breadings? (A\d+)|\[(A\d+)\]|\((A\d+)\)")
DECISION = re.compile(r"\b[Dd]ecision (\d+)")
SECTION = re.compile(r"\b[Ss]ections? (?:\d[\d./]*|[A-C]\.\d[\d.]*)")
BEFORE_SECTION = re.compile(r"(RFC \d+|IBA),?[\s*]+$")
AFTER_SECTION = re.compile(r"[\s*]+of (the |an |its )?(RFC|IBA|page|manual)")
PAGE = re.compile(r"\b(smcr[a-z_.-]*|libsmcr|org\.smcrd\.Manager1)\(([1-8])\)")


def read(path):
    with open(os.path.join(tap.ROOT, path), encoding="utf-8") as file:
        return file.read()


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def comments(text):
    """The comments of C source; everything else becomes blank, so that line numbers stay."""
    kept, at = [], 0
    for match in TOKEN.finditer(text):
        word = match.group()
        kept += [blank(text[at : match.start()]), word if word[:2] in ("/*", "//") else blank(word)]
        at = match.end()
    return "".join(kept)


def code(text):
    """The other part of C source: everything but the comments."""
    return TOKEN.sub(lambda match: " " if match.group()[:2] in ("/*", "//") else match.group(), text)


def anchor(heading):
    """The fragment by which a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


class Tree:
    """Everything that can be referred to."""

    def __init__(self):
        self.files = tap.git_files()
        self.paths = set(self.files)
        self.names = {os.path.basename(path) for path in self.files}
        self.folders = {path.split("/")[0] for path in self.files}
        self.readings = set(re.findall(r"^\| (A\d+) ", read("docs/rfc7609-readings.md"), re.M))
        self.words_of = {path: set(WORD.findall(code(read(path)))) for path in self.files if path.endswith(SOURCES)}
        self.words = set().union(*self.words_of.values())
        self.decisions = set(re.findall(r"^## (\d+)\.", read("docs/design.md"), re.M))

    def has_file(self, name, near):
        beside = os.path.normpath(os.path.join(os.path.dirname(near), name))
        if os.path.basename(name).lower() in STAND_FOR_ANY or beside in self.paths:
            return True
        if "/" not in name:
            return name in self.names
        return any(path == name or path.endswith("/" + name) for path in self.files)

    def is_system_header(self, name):
        return name.endswith(".h") and name.split("/")[0] not in self.folders


def broken_links(tree, path, text):
    for match in LINK.finditer(FENCE.sub(lambda fence: blank(fence.group()), text)):
        target, _, fragment = match.group(1).partition("#")
        if not path.endswith(".md") or ":" in target:
            continue
        full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(os.path.join(tap.ROOT, full)):
            yield match, f"there is no {full}"
        elif fragment and fragment not in {anchor(heading) for heading in HEADING.findall(read(full))}:
            yield match, f"{full} has no heading #{fragment}"


def unpacked_targets(tree, path, text):
    """What packed documents link to is packed with them."""
    for packing in PACKINGS if path == "README.md" or path.startswith("docs/") else ():
        packed = re.findall(r"(?<!\S)(?:README\.md|docs/[\w.*]+)", read(packing))
        if not any(fnmatch.fnmatch(path, pattern) for pattern in packed):
            continue
        for match in LINK.finditer(text):
            target = match.group(1).partition("#")[0]
            full = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if target and ":" not in target and not any(fnmatch.fnmatch(full, pattern) for pattern in packed):
                yield match, f"{packing} does not pack {full}"


def missing_files(tree, path, text):
    for match in FILE.finditer(text):
        name = match.group(1)
        made = name.startswith("build/")
        if path.endswith(SOURCES + (".md",)) and not (
            made or tree.has_file(name, path) or tree.is_system_header(name)
        ):
            yield match, f"there is no {name}"


def missing_functions(tree, path, text):
    """A name without an underscore may be any function of the C library, so it is not looked at."""
    for match in FUNCTION.finditer(text):
        name = match.group(1)
        if path.endswith(SOURCES + (".md",)) and name not in tree.words | OF_OTHERS:
            yield match, f"there is no {name}()"


def misplaced_functions(tree, path, text):
    for match in PLACED.finditer(text):
        name, file = match.groups()
        meant = [words for known, words in tree.words_of.items() if ("/" + known).endswith("/" + file)]
        if path.endswith(".md") and meant and not any(name in words for words in meant):
            yield match, f"{file} has no {name}"


def missing_in_tables(tree, path, text):
    """Names in the columns of tables that say where something is done, and which test shows it."""
    stems = {os.path.splitext(name)[0] for name in tree.names}
    stems |= {re.sub(r"^test_(engine_)?", "", stem) for stem in stems}
    for table in TABLE.finditer(text if path.endswith(".md") else ""):
        columns = [cell.strip() for cell in table.group().split("\n")[0].split("|")]
        at = table.start()
        for row in table.group().split("\n"):
            for column, cell in zip(columns, row.split("|")):
                for match in NAME.finditer(text, at, at + len(cell)) if column in COLUMNS else ():
                    if match.group() not in tree.words | stems:
                        yield match, f"there is no {match.group()}"
                at += len(cell) + 1


def unlisted_sources(tree, path, text):
    """Where internal.h, or the header that is named like its directory, has a line for each source, none lacks."""
    folder = os.path.dirname(path)
    heads = (f"{folder}/internal.h", f"{folder}/{os.path.basename(folder)}.h")
    if path not in heads or len(LISTING.findall(text)) < 3:
        return
    listed = [name.replace("*", r"\w*") for name in LISTED.findall(text)]
    for source in tree.files:
        name = os.path.basename(source)
        if os.path.dirname(source) == folder and name.endswith(".c") and not any(re.fullmatch(n, name) for n in listed):
            yield LISTING.search(text), f"the list lacks {name}"


def unknown_numbers(tree, path, text):
    for match in READING.finditer(text):
        name = next(filter(None, match.groups()))
        if name not in tree.readings:
            yield match, f"docs/rfc7609-readings.md has no {name}"
    for match in DECISION.finditer(text):
        if match.group(1) not in tree.decisions:
            yield match, f"docs/design.md has no decision {match.group(1)}"


def lone_sections(tree, path, text):
    for match in SECTION.finditer(text):
        before = text[max(0, match.start() - 40) : match.start()]
        if not BEFORE_SECTION.search(before) and not AFTER_SECTION.match(text, match.end()):
            yield match, f"{match.group()} of which standard?"


def missing_pages(tree, path, text):
    for match in PAGE.finditer(text):
        if f"man/{match.group(1)}.{match.group(2)}" not in tree.paths:
            yield match, f"there is no manual page {match.group()}"


CHECKS = (
    ("links of documents lead somewhere", broken_links),
    ("what packed documents link to is packed", unpacked_targets),
    ("files that are named exist", missing_files),
    ("functions that are named exist", missing_functions),
    ("functions are in the files that are named with them", misplaced_functions),
    ("functions and tests that tables name exist", missing_in_tables),
    ("headers that list the sources of their directory list all", unlisted_sources),
    ("readings and decisions that are named exist", unknown_numbers),
    ("sections say of which standard", lone_sections),
    ("manual pages that are named exist", missing_pages),
)


def faults(check, tree, texts):
    for path, text in texts:
        for match, why in check(tree, path, text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {why}"


def main():
    tree = Tree()
    texts = []
    for path in tree.files:
        if path.endswith(SOURCES):
            texts.append((path, comments(read(path))))
        elif path.endswith(PROSE) or path.startswith("man/") or os.path.basename(path) == "Makefile":
            texts.append((path, read(path)))
    return 0 if tap.report([(what, faults(check, tree, texts)) for what, check in CHECKS]) else 1


if __name__ == "__main__":
    sys.exit(main())
