"""Checks of the deployment files: containers, and the metrics that rules and dashboards name.

Invariant: nothing is started; each check returns breaches as sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch

from tests.architecture.tree import File

_METRIC = re.compile(r"\baqueduct_[a-z_]+\b")
_SERIES = re.compile(r"_(bucket|sum|count)$")


def unknown_metrics(files: Iterable[File], known: set[str]) -> Iterator[str]:
    """Metrics named in files that no code exposes; a histogram's series are known by its name."""
    for file in files:
        for name in sorted(set(_METRIC.findall(file.text))):
            if name not in known and _SERIES.sub("", name) not in known:
                yield f"{file.path} names {name}"


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instruction and arguments of each line, with continued lines joined, without comments."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    parts = [line.strip().partition(" ") for line in lines if line.strip()]
    return [(word, rest.strip()) for word, _, rest in parts]


def stages(dockerfile: str) -> dict[str, list[tuple[str, str]]]:
    """The instructions of each named stage."""
    found: dict[str, list[tuple[str, str]]] = {}
    for word, rest in instructions(dockerfile):
        if word == "FROM":
            current = found.setdefault(rest.rpartition(" AS ")[2], [])
        elif found:
            current.append((word, rest))
    return found


def copied(dockerfile: str) -> Iterator[str]:
    """The sources of each COPY from the project."""
    for word, rest in instructions(dockerfile):
        if word == "COPY" and not rest.startswith("--from="):
            yield from (source.rstrip("/") for source in rest.split()[:-1])


def uncopied(dockerfile: str, dockerignore: str, exists: Callable[[str], bool]) -> Iterator[str]:
    """Sources of COPY that do not exist or are excluded from the build context."""
    let_in = [line[1:] for line in dockerignore.splitlines() if line.startswith("!")]
    for source in copied(dockerfile):
        if not exists(source):
            yield f"{source} is not there"
        if not any(fnmatch(source, one) or source.startswith(f"{one}/") for one in let_in):
            yield f"{source} is kept from the builder"


def stage_faults(name: str, lines: list[tuple[str, str]]) -> Iterator[str]:
    """Instructions that an image needs and lacks."""
    words = dict(lines)
    if words.get("USER") != "10001":
        yield f"{name} runs as {words.get('USER', 'root')}"
    if "HEALTHCHECK" not in words:
        yield f"{name} has no health check"
    for word in ("CMD", "ENTRYPOINT"):
        if word in words and not _is_exec_form(words[word]):
            yield f"{name} has {word} in shell form"


def _is_exec_form(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False
