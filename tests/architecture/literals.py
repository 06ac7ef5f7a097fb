"""Texts for operators in the product's code, found by syntax: errors, log lines, help, metrics, output.

Invariant: a text counts by where it is used, not by how it looks; of an f-string, each value is ``{}``. A text
that is built elsewhere and passed by a name is not found, except constants of an error's class.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from tests.architecture.tree import Module
from tests.architecture.words import Prose

_ROOTS = frozenset({"Exception", "RuntimeError", "ValueError", "AqueductError", "SinkError"})
_LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
_LOGS = frozenset({"log", "_log", "logger"})
_PARSERS = frozenset(
    {"ArgumentParser", "add_argument", "add_argument_group", "add_parser", "add_subparsers"}
)
_HELP = frozenset({"description", "epilog", "help", "title"})
_METRICS = frozenset({"Counter", "Gauge", "Histogram"})
_OUTPUT = frozenset({"answer", "print", "write"})
_OF_A_CLASS = frozenset({"advice", "remedy"})
_LEAST_WORDS = 2
"""Shorter texts are names or keys."""


def operator_texts(modules: Iterable[Module]) -> Iterator[Prose]:
    """Each literal of some words that an operator may read, with its line."""
    modules = list(modules)
    errors = error_classes(modules)
    for module in modules:
        for node in ast.walk(module.syntax()):
            for literal in _literals(node, errors):
                text = _text(literal)
                if len(text.split()) >= _LEAST_WORDS:
                    yield Prose(path=module.file.path, line=literal.lineno, text=text)


def error_classes(modules: Iterable[Module]) -> frozenset[str]:
    """The names of all exceptions that the modules define, and of those they come from."""
    bases = {
        node.name: {_name(base) for base in node.bases}
        for module in modules
        for node in ast.walk(module.syntax())
        if isinstance(node, ast.ClassDef)
    }
    found = set(_ROOTS)
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return frozenset(found)


def _literals(node: ast.AST, errors: Collection[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.ClassDef) and node.name in errors:
        yield from _of_error(node)
    elif isinstance(node, ast.Call):
        yield from (literal for value in _shown(node, errors) for literal in _strings(value))
    elif isinstance(node, ast.Assign) and any(_name(one) in _HELP for one in node.targets):
        yield from _strings(node.value)  # parser.epilog = …


def _of_error(node: ast.ClassDef) -> Iterator[ast.expr]:
    """The docstring, which is the default message, and the remedy."""
    for part in node.body:
        if isinstance(part, ast.Expr):
            yield from _strings(part.value)
        if isinstance(part, ast.Assign) and any(_name(one) in _OF_A_CLASS for one in part.targets):
            yield from _strings(part.value)


def _shown(call: ast.Call, errors: Collection[str]) -> Iterator[ast.expr]:
    """The arguments of a call that an operator sees."""
    name = _name(call.func)
    owner = _name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name in errors:
        yield from (*call.args, *(keyword.value for keyword in call.keywords))
    elif (name in _LEVELS and owner in _LOGS) or name in _OUTPUT:
        yield from call.args
    elif name in _PARSERS:
        yield from (keyword.value for keyword in call.keywords if keyword.arg in _HELP)
    elif name in _METRICS:
        yield from call.args[1:2]


def _strings(node: ast.expr) -> Iterator[ast.expr]:
    """The string literals of an expression; those of a call within it are not its own."""
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield node
    elif not isinstance(node, (ast.Call, ast.Dict)):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _strings(child)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _name(node: ast.expr) -> str:
    """The last part of a name; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
