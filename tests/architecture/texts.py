"""The patterns that no file of the tree may contain, and the largest size of a file.

Invariant: the patterns are assembled here from parts, so that this file does not contain them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.architecture.tree import File, Module

RECORDED = r"^tests/golden/.*\.json$|\.md$"
MOST_LINES = 900
"""Of a file of code or settings; a shorter file may still be two things."""

_HOSTS = (
    ("pypi", "org"), ("pythonhosted", "org"), ("maven", "org"), ("repo.maven.apache", "org"),
    ("repository.apache", "org"), ("archive.apache", "org"), ("dlcdn.apache", "org"),
    ("downloads.apache", "org"), ("debian", "org"), ("archive.ubuntu", "com"), ("security.ubuntu", "com"),
    ("repo.mysql", "com"), ("cdn.mysql", "com"), ("dev.mysql", "com"), ("docker", "io"), ("ghcr", "io"),
    ("quay", "io"), ("gcr", "io"), ("npmjs", "org"), ("anaconda", "org"), ("crates", "io"),
    ("proxy.golang", "org"), ("rubygems", "org"),
)  # fmt: skip
REGISTRY = re.compile(
    r"\b(" + "|".join(re.escape(".".join(parts)) for parts in _HOSTS) + r")\b", re.IGNORECASE
)
_MACHINE = re.compile(r"(?<![\w.$}~*-])/(" + "|".join(("ro" + "ot", "wo" + "rk")) + r")/")


def registry_hosts(files: Iterable[File]) -> Iterator[str]:
    """Lines that name the host of a package registry."""
    for file in files:
        for number, line in enumerate(file.text.splitlines(), start=1):
            if found := REGISTRY.search(line):
                yield f"{file.path}:{number} names {found[1]}"


def machine_paths(files: Iterable[File], checkout: Path) -> Iterator[str]:
    """Lines that name a path of one machine: this checkout's own, or a home directory."""
    own = str(checkout)
    # A checkout right below the root may be called like a folder that files rightly name.
    own_pattern = re.escape(own) if own.count("/") > 1 else None
    for file in files:
        for number, line in enumerate(file.text.splitlines(), start=1):
            if _MACHINE.search(line) or (own_pattern and re.search(own_pattern, line)):
                yield f"{file.path}:{number} names a path of one machine"


def too_long(files: Iterable[File], excused: Mapping[str, str]) -> Iterator[str]:
    """Files above the limit without an excuse, and excuses for files that need none; documents
    and recordings are as long as they are."""
    read = (file for file in files if not re.search(RECORDED, file.path))
    long = {file.path: file.lines for file in read if file.lines > MOST_LINES}
    for path in sorted(long.keys() - excused.keys()):
        yield f"{path} has {long[path]} lines, more than {MOST_LINES}"
    for path in sorted(excused.keys() - long.keys()):
        yield f"{path} is excused for nothing"


def without_docstring(modules: Iterable[Module]) -> Iterator[str]:
    """Modules without a docstring; empty files and test files need none."""
    for module in modules:
        is_test = module.name.rpartition(".")[2].startswith("test_")
        if module.file.text.strip() and not is_test and not module.docstring():
            yield f"{module.file.path} has no docstring"


_OURS = (
    "app",
    "connectors",
    "tables",
    "spark_sink",
    "aqueduct_client",
    "devstack",
    "demo",
    "bench",
)


def methods_without_docstring(modules: Iterable[Module]) -> Iterator[str]:
    """Public methods without a docstring; an implementation of a Protocol's method needs none of its own."""
    ours = [module for module in modules if module.name.split(".")[0] in _OURS]
    classes = [
        (module, node)
        for module in ours
        for node in module.syntax().body
        if isinstance(node, ast.ClassDef)
    ]
    contracts = {
        method.name
        for _, node in classes
        if any(_named(base) == "Protocol" for base in node.bases)
        for method in _methods(node)
    }
    for module, node in classes:
        for method in _methods(node) if not node.name.startswith("_") else ():
            is_public = not method.name.startswith("_")
            is_setter = any(_named(one) in {"setter", "overload"} for one in method.decorator_list)
            is_bare = ast.get_docstring(method) is None
            if is_public and is_bare and not is_setter and method.name not in contracts:
                yield f"{module.file.path}:{method.lineno} {node.name}.{method.name} has no docstring"


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def _named(node: ast.expr) -> str:
    """The last name of a base class or a decorator."""
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
