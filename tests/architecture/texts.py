"""The patterns that no file of the tree may contain, and the largest size of a file.

Invariant: the patterns are assembled here from parts, so that this file does not contain them.
"""

from __future__ import annotations

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
