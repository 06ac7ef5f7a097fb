"""The project's own files, as the rules see them.

Invariant: files that `.gitignore` names are not ours; every other file is checked.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class File:
    """One text file; `path` is relative to the project, with slashes."""

    path: str
    text: str

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return len(self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Module:
    """One Python module by its dotted name."""

    name: str
    file: File
    is_package: bool

    @classmethod
    def of(cls, file: File) -> Module:
        """The module that a file is."""
        parts = file.path.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        return cls(".".join(parts[:-1] if is_package else parts), file, is_package)

    def imports(self) -> Iterator[tuple[str, str]]:
        """Each import, within functions too, as (module, name in it or empty)."""
        for node in _import_nodes(self.file.text):
            if isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names)
            else:
                source = self._absolute(node)
                yield from ((source, alias.name) for alias in node.names)

    def syntax(self) -> ast.Module:
        """The module's syntax tree, parsed once for all checks."""
        return _parsed(self.file.text)

    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree, walked once for all checks."""
        return _walked(self.file.text)

    def names(self) -> set[str]:
        """Every name that it imports, or reads as a variable or an attribute."""
        found = {name for _, name in self.imports()}
        for node in self.nodes():
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
        return found

    def docstring(self) -> str:
        """The module's docstring, empty without one."""
        return ast.get_docstring(_parsed(self.file.text)) or ""

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        up = node.level - (1 if self.is_package else 0)
        parts = self.name.split(".")
        base = parts[: len(parts) - up]
        return ".".join([*base, node.module] if node.module else base)


@lru_cache
def files() -> tuple[File, ...]:
    """All text files of the project."""
    ignored = _ignored((PROJECT / ".gitignore").read_text().splitlines())
    return tuple(_walk(PROJECT, ignored))


@lru_cache
def modules() -> tuple[Module, ...]:
    """All Python modules of the project."""
    return tuple(Module.of(file) for file in files() if file.path.endswith(".py"))


@cache
def _parsed(text: str) -> ast.Module:
    # CPython counts the depth of its recursion in one place: it fails if a collection during it runs
    # a finalizer that parses too, as that of a warning's traceback does (python/cpython#106905).
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        # Of two million nodes, which are kept: each collection would go through them.
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache
def _walked(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parsed(text)))


@cache
def _import_nodes(text: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return tuple(node for node in _walked(text) if isinstance(node, (ast.Import, ast.ImportFrom)))


def module_from(path: str, text: str) -> Module:
    """A module that is in no file, for planting breaches."""
    return Module.of(File(path, text))


def _ignored(lines: Iterable[str]) -> set[str]:
    return {"/.git", *(line.strip().rstrip("/") for line in lines if line.strip())}


def _is_ignored(path: Path, ignored: set[str]) -> bool:
    """Whether a pattern matches; one that begins with a slash is of the project's own folder."""
    at_top = f"/{path.relative_to(PROJECT).as_posix()}"
    return at_top in ignored or any(
        path.match(pattern) for pattern in ignored if not pattern.startswith("/")
    )


def _walk(folder: Path, ignored: set[str]) -> Iterator[File]:
    for path in sorted(folder.iterdir()):
        if _is_ignored(path, ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored)
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            continue  # not text, or gone since the folder was listed
        yield File(path.relative_to(PROJECT).as_posix(), text)
