# SPDX-License-Identifier: MIT
"""The systematic mutants of a C source: one small change each, found by its tokens.

This is no C parser: it reads the project's own sources in the form that clang-format gives them. Changes that do not
compile are found when they are built.
"""
import collections
import re

# A change: the text of the source from `start` to `end` becomes `new`. `function` contains it; at file scope `function`
# is empty, and `body` is the whole file.
Change = collections.namedtuple("Change", "operator function start end new")
Function = collections.namedtuple("Function", "name returns start end")
Token = collections.namedtuple("Token", "kind text start end")

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      |(?P<directive>\#(?:\\\n|[^\n])*)
      |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      |(?P<number>\d(?:[\w.])*)
      |(?P<word>[A-Za-z_]\w*)
      |(?P<op><<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|\S)""",
    re.X | re.S,
)
SWAPPED = {
    "compare": {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "logic": {"&&": "||", "||": "&&"},
    "arithmetic": {"+": "-", "-": "+", "&": "|", "|": "&", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=",
                   "|=": "&=", "&=": "|="},
}
# After these words an operator has no left operand.
NO_OPERAND = {"return", "case", "sizeof", "else", "do"}
DECLARING = {"struct", "enum", "union", "const", "static", "unsigned", "extern", "typedef"}
HEADED = {"if", "while", "for", "switch"}
# Calls of these are not behaviour: assertions and log messages.
SILENT = {"assert", "static_assert", "smcr_log", "syslog", "log_message", "conns_log"}
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)")


def tokens_of(text):
    tokens = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match.group(), match.start(), match.end()))
        position = match.end()
    return tokens


def closing(tokens, opening):
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(tokens)):
        if tokens[i].kind != "op":
            continue
        if tokens[i].text in "([{":
            depth += 1
        elif tokens[i].text in ")]}":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError(f"a bracket is open from offset {tokens[opening].start}")


def functions_of(tokens):
    """The functions that a source defines, by the indexes of their braces."""
    functions = []
    first = i = 0
    while i < len(tokens):
        token = tokens[i]
        if token.kind == "directive" or token.text == ";":
            first = i + 1
        elif token.text == "(" and tokens[i - 1].kind == "word":
            end = closing(tokens, i)
            if end + 1 < len(tokens) and tokens[end + 1].text == "{":
                close = closing(tokens, end + 1)
                returns = [t.text for t in tokens[first : i - 1]]
                functions.append(Function(tokens[i - 1].text, returns, end + 1, close))
                first = close + 1
                end = close
            i = end
        elif token.text in ("{", "["):
            i = closing(tokens, i)
        i += 1
    return functions


def is_binary(tokens, i):
    """Does the operator at `i` have a left operand?"""
    before = tokens[i - 1]
    if before.kind == "word":
        return before.text not in NO_OPERAND
    return before.kind in ("number", "string") or before.text in (")", "]")


def next_numbers(text):
    """A literal plus and minus one, in its own notation."""
    match = NUMBER.fullmatch(text)
    if not match:
        return []
    digits, suffix = match.groups()
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" and digits != "0" else 10)
    form = "0x{:X}" if digits[:2] in ("0x", "0X") else "{}"
    values = [value + 1] + ([value - 1] if value > 0 else [])
    return [form.format(v) + suffix for v in values]


def literals(tokens, name):
    for token in tokens:
        if token.kind == "number":
            for new in next_numbers(token.text):
                yield Change("constant", name, token.start, token.end, new)


def operators(tokens, name):
    for i, token in enumerate(tokens):
        if token.kind != "op" or i == 0:
            continue
        for operator, swapped in SWAPPED.items():
            if token.text in swapped and is_binary(tokens, i):
                yield Change(operator, name, token.start, token.end, swapped[token.text])


def negation(text, tokens, first, last, name):
    """Negate the condition from token `first` to token `last`."""
    start, end = tokens[first].start, tokens[last].end
    return Change("negate", name, start, end, f"!({text[start:end]})")


def conditions(text, tokens, name):
    for i, token in enumerate(tokens):
        if token.kind != "word" or token.text not in ("if", "while", "for"):
            continue
        end = closing(tokens, i + 1)
        first, last = i + 2, end - 1
        if token.text == "for":
            parts = [j for j in range(i + 2, end) if tokens[j].text == ";"]
            if len(parts) != 2:
                continue
            first, last = parts[0] + 1, parts[1] - 1
        if first <= last:
            yield negation(text, tokens, first, last, name)


def is_declaration(tokens, i):
    words = [t.kind == "word" for t in tokens[i : i + 3]]
    return tokens[i].text in DECLARING or (
        len(words) == 3 and words[0] and (words[1] or (tokens[i + 1].text == "*" and (words[2] or tokens[i + 2].text == "*")))
    )


def statement_end(tokens, i):
    """Index of the semicolon that ends the statement at `i`; None if the statement contains a block."""
    while i < len(tokens):
        if tokens[i].text in ("(", "["):
            i = closing(tokens, i)
        elif tokens[i].text == ";":
            return i
        elif tokens[i].text in ("{", "}") and tokens[i].kind == "op":
            return None
        i += 1
    return None


def statement_starts(tokens):
    """Indexes at which a statement may begin."""
    for i, token in enumerate(tokens):
        if token.text in ("{", "}", ";", "else", "do") and token.kind != "string":
            yield i + 1
        elif token.kind == "word" and token.text in HEADED and tokens[i + 1].text == "(":
            yield closing(tokens, i + 1) + 1
        elif token.text == ":" and tokens[i - 1].text != ")":
            yield i + 1


def changed_return(text, tokens, i, end, function):
    """Replacements for `return E;` from token `i` to its semicolon."""
    start, stop = tokens[i + 1].start, tokens[end].start
    value = text[start:stop]
    if "*" in function.returns:
        new = "NULL"
    elif "bool" in function.returns:
        new = f"!({value})"
    else:
        new = f"({value}) + 1"
    return Change("return", function.name, start, stop, new)


def statements(text, tokens, function):
    """Statements left out, and other values returned."""
    heads = set()
    for i, token in enumerate(tokens):
        if token.kind == "word" and token.text == "for":
            heads.update(range(i + 1, closing(tokens, i + 1) + 1))
    for i in statement_starts(tokens):
        if i >= len(tokens) or i in heads or tokens[i].text in HEADED | SILENT | {"case", "default", "else", "do"}:
            continue
        end = statement_end(tokens, i)
        if end is None or end == i or tokens[i].kind == "string":
            continue
        if tokens[i].text == "return" and end > i + 1:
            yield changed_return(text, tokens, i, end, function)
            continue
        is_cast_away = [t.text for t in tokens[i : i + 3]] == ["(", "void", ")"] and end == i + 4
        if not is_cast_away and not is_declaration(tokens, i) and tokens[i + 1].text != ":":
            yield Change("remove", function.name, tokens[i].start, tokens[end].end, ";")


def defines(tokens):
    """Numbers in the macros of a source."""
    for token in tokens:
        match = re.match(r"#define\s+\w+(\([^)]*\))?", token.text) if token.kind == "directive" else None
        if not match:
            continue
        for inner in tokens_of(token.text[match.end() :]):
            if inner.kind == "number":
                at = token.start + match.end() + inner.start
                for new in next_numbers(inner.text):
                    yield Change("constant", "", at, at + len(inner.text), new)


def changes_of(text):
    """Every systematic change of a source, in the order of the source."""
    tokens = tokens_of(text)
    changes = list(defines(tokens))
    inside = set()
    for function in functions_of(tokens):
        inside.update(range(function.start, function.end + 1))
        body = tokens[function.start : function.end + 1]
        changes += literals(body, function.name)
        changes += operators(body, function.name)
        changes += conditions(text, body, function.name)
        changes += statements(text, body, function)
    outside = [t for i, t in enumerate(tokens) if i not in inside]
    changes += literals(outside, "")
    return sorted(set(changes), key=lambda c: (c.start, c.end, c.operator, c.new))
