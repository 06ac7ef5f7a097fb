"""Words that text for operators does not use, each with what to write instead.

Invariant: only prose is searched, generated tables among it. Code and output of the program are quoted as they
are, so that a page shows what an operator sees; names of metrics, settings and states are not prose either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tests.architecture.tree import File


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """Text that an operator reads, and the line on which it begins."""

    path: str
    line: int
    text: str


RULED_OUT: Mapping[str, str] = {
    r"tells?|told|telling": "report, state, record, name, distinguish",
    r"whoever": "the worker that, an operator who",
    r"no ?body|some ?body|any ?body|every ?body": "no worker, an operator, another program",
    r"(?:go|goes|going|gone|went) on": "continue, resume",
    r"anew": "again; restart, start a new run, recreate",
    r"heal(?:s|ed|ing)?": "pass by itself, recover",
    r"hears?|heard": "receive, read",
    r"for certain|at hand": "certainly, available",
    r"stands? (?:on|in|at|within|between|behind|still|there)|stood": "is, is in, is stopped",
    r"set(?:s|ting)? (?:\w+ )?aside": "quarantine, quarantined",
    r"behind": "after, past, later than, lags by",
    r"ahead of": "before, past, newer than",
    r"(?:the|a|its|our|this|that|each|any|exact) places? (?:in|of|that|where|behind|before)": "position",
    r"a person|persons|people": "an operator",
    r"for ever": "forever",
    r"(?:is|are) not there|there already": "does not exist, exists",
    r"(?:is|are|was|were) left out|what is left": "is skipped, is excluded, is omitted",
    r"what (?:became|becomes|comes) of": "the result of, the outcome of",
    r"otherwise than|has (?:it )?otherwise": "differs from",
    r"so long ago|for so long": "for that long",
    r"mend(?:s|ed|ing)?": "repair, correct, fix",
    r"in the midst|midst of": "during, within",
    r"in silence|without a word": "silently, without an error",
    r"(?:and|or) (?:its|their) (?:kin|like)": "and similar ones",
    r"of before": "existing, earlier",
    r"borders?": "boundary, transaction marker",
    r"nursery": "fork server",
    r"historian": "schema tracker",
    r"mandate": "write permit",
    r"troupe|patience": "coordination, leadership, timeout",
    r"poisoned|buried": "undecodable row, dead letter",
    r"the law": "Invariant",
}
"""Patterns, bounded by words and blind to case, and what to write instead. Add a line to rule out more."""

ALLOWED = (
    r"behind (?:a|the) (?:proxy|load balancer)",
    r"what becomes of it \| shown by",
)
"""Legitimate uses; each is removed before a text is searched. Keep it short."""

_PATTERNS = [
    (re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), re.IGNORECASE), instead)
    for pattern, instead in RULED_OUT.items()
]
# Without IGNORECASE and in one pass: all but a few texts have none of them, and are searched once.
_ANY = re.compile(rf"\b(?:{'|'.join(RULED_OUT)})\b".replace(" ", r"\s+"))
_ALLOWED = re.compile("|".join(ALLOWED).replace(" ", r"\s+"), re.IGNORECASE)
_NOT_PROSE = re.compile(
    r"^[ ]*```.*?^[ ]*```"  # code and output
    r"|``[^\n]+?``|`[^`]+`"  # code within a line
    r"|\]\([^)\s]+\)",  # targets of links
    re.MULTILINE | re.DOTALL,
)


def prose(file: File) -> Prose:
    """The prose of a document; other files have nothing that is not searched."""
    text = _NOT_PROSE.sub(_blank, file.text) if file.path.endswith(".md") else file.text
    return Prose(path=file.path, line=1, text=text)


def ruled_out(texts: Iterable[Prose]) -> Iterator[str]:
    """Each ruled-out word, with its line and what to write instead."""
    for one in texts:
        if not _ANY.search(one.text.lower()):
            continue
        text = _ALLOWED.sub(_blank, one.text)
        for pattern, instead in _PATTERNS:
            for found in pattern.finditer(text):
                line = one.line + text.count("\n", 0, found.start())
                word = " ".join(found[0].split())
                yield f"{one.path}:{line} has {word!r}; write: {instead}"


def _blank(found: re.Match[str]) -> str:
    """The line breaks of the match alone, so that line numbers stay right."""
    return "\n" * found[0].count("\n") or " "
