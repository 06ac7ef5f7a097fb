"""Every error of the product with the test that carries its remedy out, as a page.

Invariant: errors and marks are read from source text, so an error is listed wherever it is defined, and a mark
counts whether or not its test runs here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.architecture.tree import PROJECT, File, Module

PAGE = PROJECT / "docs/remedies.md"
ROOTS = {"AqueductError", "SinkError", "SubscriberError"}
FAMILIES = {
    "app": "",
    "connectors": "",
    "tables": "",
    "spark_sink": "sink.",
    "aqueduct_client": "client.",
}
"""What precedes an error's name in a mark and on the page, by the package that defines it."""
_HEADINGS = {"": "The worker and its commands", "sink.": "The sink", "client.": "The client"}
_CLASS = re.compile(r"^ *class \w+\(", re.MULTILINE)
_EXEMPT = re.compile(r"^    # No remedy: (.+)$", re.MULTILINE)
_SINKS_ROW = re.compile(r"^\| ((?:`\w+`(?: \*)?(?:, )?)+) \| (.+) \|$", re.MULTILINE)
_HEAD = """# Remedies

This page lists every error with what to do about it, and the test that does it: from the state that raises the
error, by the command, statement or setting that its message names, to the end of that state. It is generated
(`python -m tests.architecture.remedies`), and a test compares it with the code. [errors.md](errors.md) explains
the worker's errors, [sink/errors.md](sink/errors.md) the sink's, [subscriber.md](subscriber.md#errors) the
client's.
Where the message itself says what to do in each case, the column says "as the message says".
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One class of error; `exempt` is the reason why no operator meets it."""

    name: str
    remedy: str
    exempt: str


@cache
def sources() -> tuple[Module, ...]:
    """The modules of the product and of the tests."""
    return tuple(
        Module.of(File(path.relative_to(PROJECT).as_posix(), path.read_text()))
        for package in (*FAMILIES, "tests")
        for path in sorted((PROJECT / package).rglob("*.py"))
    )


def errors_of(modules: Iterable[Module]) -> list[Error]:
    """The errors that modules of the product define, in the order of the modules."""
    found = [
        (FAMILIES[package], module, node)
        for module in modules
        if (package := module.file.path.split("/")[0]) in FAMILIES
        and _CLASS.search(module.file.text)
        for node in module.nodes()
        if isinstance(node, ast.ClassDef)
    ]
    errors = [each for each in found if each[2].name in ROOTS]
    while more := [
        (family, module, node)
        for family, module, node in found
        if not any(node is other for _, _, other in errors)
        and {(family, base) for base in _bases(node)} & {(f, other.name) for f, _, other in errors}
    ]:
        errors += more
    nodes = {(family, node.name): node for family, _, node in errors}
    return [
        Error(
            name=family + node.name,
            remedy=_remedy(family, node, nodes),
            exempt=" ".join(_EXEMPT.findall(_source(module, node))),
        )
        for family, module, node in found
        if any(node is other for _, _, other in errors)
    ]


def marks_of(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """Each mark `remedy` of a test: the error that it names, and the test."""
    for module in modules:
        if not module.file.path.startswith("tests/") or "mark.remedy(" not in module.file.text:
            continue
        of_tests: set[ast.Call] = set()
        for node in module.syntax().body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            calls = [call for call in _marks(node) if node.name.startswith("test_")]
            of_tests.update(calls)
            for call in calls:
                for argument in call.args:
                    yield ast.literal_eval(argument), f"{module.file.path}::{node.name}"
        for call in _marks(module.syntax()):
            if call not in of_tests:
                yield "", f"{module.file.path}:{call.lineno}"


def faults(errors: Iterable[Error], marks: Iterable[tuple[str, str]]) -> Iterator[str]:
    """What is missing or wrong: an error without a test, or a mark without an error."""
    listed, marked = list(errors), list(marks)
    names = [error.name for error in listed]
    tested = {name for name, _ in marked}
    yield from (
        f"{name} is defined twice" for name in sorted({n for n in names if names.count(n) > 1})
    )
    for error in listed:
        if error.exempt and error.name in tested:
            yield f"{error.name} has a test, and a reason to have none"
        elif not error.exempt and error.name not in tested:
            yield f"{error.name} has no test that carries its remedy out"
    for name, test in marked:
        if name not in names:
            yield f"{test} names no error: {name!r}"


def page(
    errors: Iterable[Error], marks: Iterable[tuple[str, str]], of_sink: Mapping[str, str]
) -> str:
    """The page of all errors."""
    tests: dict[str, list[str]] = {}
    for name, test in marks:
        tests.setdefault(name, []).append(test.removeprefix("tests/"))
    listed = sorted(errors, key=lambda error: error.name)
    parts = [_HEAD]
    for family, heading in _HEADINGS.items():
        of_family = [e for e in listed if e.name.rpartition(".")[0] == family.rstrip(".")]
        rows = [
            f"| {error.name.removeprefix(family)} "
            f"| {_cell(error.remedy or of_sink.get(error.name) or 'as the message says')} "
            f"| {'<br>'.join(f'`{test}`' for test in tests.get(error.name, ())) or 'not yet'} |"
            for error in of_family
            if not error.exempt
        ]
        parts.append(
            "\n".join(
                [f"## {heading}\n", "| error | what to do | test |", "|---|---|---|", *rows, ""]
            )
        )
    exempt = [f"* {error.name}: {error.exempt}" for error in listed if error.exempt]
    parts.append("\n".join(["## No operator meets\n", *exempt, ""]))
    return "\n".join(parts)


def of_the_sink(text: str) -> dict[str, str]:
    """What the sink's page says is to be done, by the error's name; its links lead from `docs/`."""
    return {
        f"sink.{name}": text.replace("](", "](sink/").replace("](sink/../", "](")
        for names, text in _SINKS_ROW.findall(text)
        for name in re.findall(r"\w+", names)
    }


def current_page() -> str:
    """The page as it should be."""
    return page(
        errors_of(sources()),
        marks_of(sources()),
        of_the_sink((PROJECT / "docs/sink/errors.md").read_text()),
    )


def _bases(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


def _remedy(family: str, node: ast.ClassDef, nodes: Mapping[tuple[str, str], ast.ClassDef]) -> str:
    for part in node.body:
        target = part.targets[0] if isinstance(part, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id == "remedy":
            assert isinstance(part, ast.Assign)
            return str(ast.literal_eval(part.value))
    above = [nodes[family, base] for base in _bases(node) if (family, base) in nodes]
    return _remedy(family, above[0], nodes) if above else ""


def _source(module: Module, node: ast.ClassDef) -> str:
    """The lines of a class, with the comments at its end."""
    lines = module.file.text.splitlines()[node.lineno :]
    end = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return "\n".join(lines[:end])


def _marks(node: ast.AST) -> list[ast.Call]:
    return [
        call
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "remedy"
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(current_page())
