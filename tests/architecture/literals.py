"""The prose of code, found by syntax: string literals of some words, docstrings among them, comments and names.

Invariant: a text counts by what it is, not by where it is used, so that none that an operator may read is
missed; of an f-string, each value is ``{}``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

from tests.architecture.tree import Module
from tests.architecture.words import Prose

_LEAST_WORDS = 2
"""Shorter texts are names or keys."""
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"'
    r"|'''(?:\\.|[^\\])*?'''|'(?:\\.|[^'\\\n])*'"
    r"|#[^\n]*",
    re.DOTALL,
)
"""What a `#` is, from the left; `tokenize` takes twenty times as long."""


def texts(modules: Iterable[Module]) -> Iterator[Prose]:
    """Each literal, comment and name of some words, with the line on which it begins."""
    for module in modules:
        yield from _texts(module)


@cache
def _texts(module: Module) -> tuple[Prose, ...]:
    found = (*_literals(module.syntax()), *_comments(module.file.text))
    return tuple(
        Prose(path=module.file.path, line=line, text=text)
        for line, text in found
        if len(text.split(None, _LEAST_WORDS)) >= _LEAST_WORDS
    )


def _literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name.replace("_", " ").strip()
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, _joined(node)
            # What a value of it is made of.
            waiting += (one for one in node.values if isinstance(one, ast.FormattedValue))
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        waiting += ast.iter_child_nodes(node)


def _joined(node: ast.JoinedStr) -> str:
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
    )


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines as one, since a phrase may run over the end of a line."""
    first, lines = 0, list[str]()
    line, counted = 1, 0
    for token in _STRING_OR_COMMENT.finditer(source):
        if not token[0].startswith("#"):
            continue
        line += source.count("\n", counted, token.start())
        counted = token.start()
        if line != first + len(lines):
            yield first, "\n".join(lines)
            first, lines = line, []
        lines.append(token[0].lstrip("# "))
    yield first, "\n".join(lines)
