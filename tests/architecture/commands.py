"""Command lines in documents: their groups, commands and options must exist.

Invariant: only code is searched, and only what a command line itself names: placeholders, ``…`` and
alternatives (``list|pause``) are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.tree import File

Options = Mapping[str, Mapping[str, frozenset[str]]]
"""By program, its commands (a group and a command are two words), each with its options."""

_FENCED = re.compile(r"^[ ]*```\w*\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_CALL = re.compile(r"python -m (app|spark_sink)(?![\w.])([^\n]*)")
_END = re.compile(r"\s(?:#|\||>|<|&&|;|2>)(?:\s|$)|[)\"']*$")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_WORD = re.compile(r"[a-z][a-z|-]*")
_SINKS_OWN = ("--config", "--mode", "--version", "--help")


def unknown_commands(documents: Iterable[File], known: Options) -> Iterator[str]:
    """Command lines with a command or an option that does not exist."""
    for document in documents:
        for line in dict.fromkeys(_code_lines(document.text)):
            for program, words in _calls(line, known):
                for fault in _faults(words, known[program]):
                    yield f"{document.path} says {line.strip()}: {fault}"


def _code_lines(text: str) -> Iterator[str]:
    """Each line of fenced code, and each piece of code within a line."""
    if "`" not in text:
        return
    for block in _FENCED.findall(text):
        yield from block.replace("\\\n", " ").splitlines()
    for span in _INLINE.findall(_FENCED.sub("", text)):
        yield " ".join(span.split())


def _calls(line: str, known: Options) -> Iterator[tuple[str, list[str]]]:
    for program, rest in _CALL.findall(line):
        yield program, _END.split(rest)[0].split()
    # A page names a group's command by two words, as it has shown the program before.
    words = line.split()
    if len(words) > 1 and words[0] in _groups(known["app"]):
        yield "app", words


def _faults(words: list[str], commands: Mapping[str, frozenset[str]]) -> Iterator[str]:
    groups = _groups(commands)
    chosen = list[str]()
    while words and (words[0] in _SINKS_OWN or (chosen and chosen[-1] in ("--config", "--mode"))):
        chosen.append(words[0])
        words = words[1:]
    if not words or not _WORD.fullmatch(words[0]):
        return
    names = words[0].split("|")
    rest = words[1:]
    if words[0] in groups:
        if not rest or not _WORD.fullmatch(rest[0]):
            return
        names = [f"{words[0]} {one}" for one in rest[0].split("|")]
    allowed = set[str]()
    for name in names:
        if name not in commands:
            yield f"there is no {name}"
        allowed |= commands.get(name, frozenset())
    for option in _OPTION.findall(" ".join(rest)):
        if allowed and option not in allowed:
            yield f"{names[0]} has no {option}"


def _groups(commands: Iterable[str]) -> set[str]:
    return {one.partition(" ")[0] for one in commands if " " in one}
