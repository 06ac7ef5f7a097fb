"""The prose of code, found by syntax: string literals of some words, docstrings among them, comments and names.

Invariant: a text counts by what it is, not by where it is used, so that none that an operator may read is
missed; of an f-string, each value is ``{}``.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator

from tests.architecture.tree import Module
from tests.architecture.words import Prose

_LEAST_WORDS = 2
"""Shorter texts are names or keys."""


def texts(modules: Iterable[Module]) -> Iterator[Prose]:
    """Each literal, comment and name of some words, with the line on which it begins."""
    for module in modules:
        found = (*_literals(module.syntax()), *_comments(module.file.text))
        for line, text in found:
            if len(text.split()) >= _LEAST_WORDS:
                yield Prose(path=module.file.path, line=line, text=text)


def _literals(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.lineno, node.name.replace("_", " ").strip()
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, _joined(node)
        # What a value of it is made of.
        children: Iterable[ast.AST] = (x for x in node.values if isinstance(x, ast.FormattedValue))
    else:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _literals(child)


def _joined(node: ast.JoinedStr) -> str:
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
    )


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments on consecutive lines as one, since a phrase may run over the end of a line."""
    first, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != first + len(lines):
            yield first, "\n".join(lines)
            first, lines = token.start[0], []
        lines.append(token.string.lstrip("# "))
    yield first, "\n".join(lines)
