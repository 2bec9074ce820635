# SPDX-License-Identifier: Apache-2.0
"""Just enough of C for the checks: tokens with their lines, comments, and function bodies. No preprocessor."""
import re
from collections import namedtuple

Token = namedtuple("Token", "text line")
Comment = namedtuple("Comment", "text line")  # with its delimiters
Function = namedtuple("Function", "name line end body")  # lines of its braces; body: tokens between them

PARTS = re.compile(r"""(?P<comment>/\*.*?\*/|//[^\n]*)
  |(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  |(?P<word>\w+)
  |(?P<other>[^\s])""", re.VERBOSE | re.DOTALL | re.MULTILINE)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


def scan(source):
    """(tokens without comments and preprocessor lines, comments). A comment inside a preprocessor line is a comment, too."""
    tokens, comments, line, at = [], [], 1, 0
    for m in PARTS.finditer(source):
        line += source.count("\n", at, m.start())
        at = m.start()
        text = m.group()
        if m.lastgroup == "comment":
            comments.append(Comment(text, line))
        elif m.lastgroup == "directive":
            for c in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
                comments.append(Comment(c.group(), line + text.count("\n", 0, c.start())))
        else:
            tokens.append(Token(text, line))
    return tokens, comments


def closing(tokens, at):
    """Index of the bracket that closes the one at `at`; the last token where none does."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += tokens[i].text in OPEN
        depth -= tokens[i].text in CLOSE
        if not depth:
            return i
    return len(tokens) - 1


def function_name(tokens, begin, brace):
    """NAME of `… NAME(…) {`, with the arguments where NAME is criterion's Test; None where this is no function."""
    name, i = None, begin
    if tokens[brace - 1].text != ")":
        return None
    while i < brace:
        if tokens[i].text == "=":
            return None
        if tokens[i].text == "(":
            end = closing(tokens, i)
            word = tokens[i - 1].text
            if i > begin and re.match(r"[A-Za-z_]", word) and not word.startswith("__attribute"):
                name = word
                if word == "Test":
                    name = f"Test({', '.join(t.text for t in tokens[i + 1:end] if t.text != ',')})"
            i = end
        i += 1
    return name


def functions(tokens):
    """Every function that is defined, in order."""
    i, begin = 0, 0
    while i < len(tokens):
        text = tokens[i].text
        if text == "{":
            end, name = closing(tokens, i), function_name(tokens, begin, i)
            if name:
                yield Function(name, tokens[i].line, tokens[end].line, tokens[i + 1:end])
                begin = end + 1
            i = end
        elif text == ";":
            begin = i + 1
        elif text in OPEN:
            i = closing(tokens, i)
        i += 1
