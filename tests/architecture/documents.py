"""References of documents that must exist: links, paths, targets of make.

Invariant: a document that names something missing is a breach, reported with its file and the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from tests.architecture.tree import File

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_DOTTED = re.compile(r"`([a-z][a-z_]*(?:\.[a-z][a-z_]*)+)(?<!\.py)`")
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md(?:#[a-z-]+)?")
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.*-]*)`")
_TEST = re.compile(r"`((?:[\w.-]+/)*test_\w+\.py)(?:::\w+)?`")
_MAKE = re.compile(r"(?:^|`|\s)make ([a-z][a-z-]*)(?: SUITE=([a-z-]+))?(?=[\s`]|$)", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```|`[^`]+`", re.MULTILINE | re.DOTALL)

ROOTS = ("", "app/", "connectors/")
"""Folders that a path in a document may be relative to."""

Exists = Callable[[str], bool]


def broken_links(documents: Iterable[File], exists: Exists) -> Iterator[str]:
    """Relative links to files that do not exist."""
    for document in documents:
        folder = PurePosixPath(document.path).parent
        for target in _LINK.findall(document.text):
            if "://" not in target and not exists(_joined(folder, target)):
                yield f"{document.path} links to {target}"


def broken_anchors(documents: Iterable[File]) -> Iterator[str]:
    """Links to a heading that its document does not have."""
    headings = {document.path: set(_headings(document.text)) for document in documents}
    for document in documents:
        folder = PurePosixPath(document.path).parent
        for target, anchor in _ANCHOR.findall(document.text):
            path = _joined(folder, target) if target else document.path
            if path in headings and anchor not in headings[path]:
                yield f"{document.path} links to {target}#{anchor}"


def _headings(text: str) -> Iterator[str]:
    """The anchors that a Git forge gives a document's headings."""
    for heading in _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        yield re.sub(r"[^\w -]", "", shown.strip().lower()).replace(" ", "-")


def pages_in_code(code: Iterable[File]) -> Iterator[File]:
    """The pages that code names as `docs/x.md#heading`, as links from the project's folder."""
    for file in code:
        if found := _PAGE.findall(file.text):
            yield File(file.path.replace("/", "."), "\n".join(f"[x]({page})" for page in found))


def unknown_settings(
    documents: Iterable[File], groups: set[str], known: set[str], fields: set[str]
) -> Iterator[str]:
    """Names in backticks that begin as a group of settings and are neither a setting nor a field."""
    for document in documents:
        for name in sorted(set(_DOTTED.findall(document.text))):
            if name.partition(".")[0] in groups and name not in known | fields:
                yield f"{document.path} names {name}"


def missing_paths(documents: Iterable[File], exists: Exists, tops: set[str]) -> Iterator[str]:
    """Paths in backticks that begin like the project's and do not exist."""
    for document in documents:
        for path in _PATH.findall(document.text):
            if path.partition("/")[0] in tops and not any(exists(root + path) for root in ROOTS):
                yield f"{document.path} names {path}"


def missing_tests(documents: Iterable[File], paths: Iterable[str]) -> Iterator[str]:
    """Files of tests in backticks, by their whole path or by its end, that are not among the paths."""
    ends = {end for path in paths for end in _ends(PurePosixPath(path))}
    for document in documents:
        for path in _TEST.findall(document.text):
            if path not in ends:
                yield f"{document.path} names {path}"


def _ends(path: PurePosixPath) -> Iterator[str]:
    for first in range(len(path.parts)):
        yield "/".join(path.parts[first:])


def changes(text: str) -> list[tuple[str, str]]:
    """The tables "to change X, begin at Y" of a page: each change, and the cell with its paths."""
    tables = text.split("\n| to change | begin at | and then |\n|---|---|---|\n")[1:]
    lines = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
    rows = [line.split(" | ") for line in lines]
    return [(row[0].removeprefix("| "), row[1]) for row in rows]


def named_paths(text: str) -> list[str]:
    """The paths in backticks."""
    return _PATH.findall(text)


def unknown_targets(documents: Iterable[File], makefile: str) -> Iterator[str]:
    """`make` with a target that the Makefile does not have, or with a suite that its target does not have."""
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    suites = set(re.findall(r"^([a-z]+)_([a-z-]+) =", makefile, re.MULTILINE))
    for document in documents:
        for code in _CODE.findall(document.text):
            for target, suite in _MAKE.findall(code):
                if target not in targets:
                    yield f"{document.path} says make {target}"
                elif suite and (target, suite) not in suites:
                    yield f"{document.path} says make {target} SUITE={suite}"


def unnamed(files: Iterable[File], document: str) -> Iterator[str]:
    """Folders of Python files whose path a document does not have in backticks."""
    paths = (PurePosixPath(file.path) for file in files if file.path.endswith(".py"))
    for folder in sorted({path.parent.as_posix() for path in paths}):
        if f"`{folder}/`" not in document:
            yield folder


def _joined(folder: PurePosixPath, target: str) -> str:
    parts: list[str] = []
    for part in (folder / target).parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)
