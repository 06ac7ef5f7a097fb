"""Regular expressions of tables in rows of a signal table, of which none can hold up a worker.

An account that may write to the source chooses them, and Python's engine may need years for a short one. So a
part of the syntax is supported, and matched in a time that grows with the product of the lengths at most.

Invariant: an expression matches whole names as a regular expression does, or is refused.
Source: the translation of ``*`` in Python's fnmatch, whose atomic groups never go back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LONGEST = 300
_ATOM = re.compile(
    r"(?P<one>\\[^\w\s]|\\[dw]|\.|\[\^?(?:[\w ,;:=~$%-])+\]|[^\\.\[\](){}*+?|^$])(?P<repeat>[*+]?)"
)
"""An escaped character, a digit or letter, any character, a class, or a character for itself."""
SUPPORTED = (
    "supported are names with . and .*, escapes, classes such as [0-9]+, and | between whole names"
)


def table_pattern(text: str) -> re.Pattern[str]:
    """The expression, for ``fullmatch``. Raises ValueError with what is supported."""
    if len(text) > _LONGEST:
        raise ValueError(f"an expression has more than {_LONGEST} characters")
    try:
        return re.compile("|".join(map(_bounded, text.split("|"))), re.DOTALL)
    except re.error:
        raise ValueError(f"an expression is none that is supported; {SUPPORTED}") from None


def _bounded(text: str) -> str:
    """One alternative: what is between two ``.*`` is matched at the first place that it fits, for good."""
    atoms = _atoms(text.removeprefix("^").removesuffix("$"))
    segments = [""]
    for number, (atom, repeat) in enumerate(atoms):
        following = atoms[number + 1] if number + 1 < len(atoms) else None
        if not repeat:
            segments[-1] += atom
        elif atom == ".":
            segments[-1] += "." if repeat == "+" else ""
            segments.append("")
        elif following is not None and following[0] == "." and following[1]:
            # What follows takes the rest of them.
            segments[-1] += atom if repeat == "+" else ""
        elif not any(_overlap(atom, one) for one in _next(atoms[number + 1 :])):
            segments[-1] += f"{atom}{repeat}+"
        else:
            raise ValueError(f"{atom}{repeat} may match what follows it; {SUPPORTED}")
    first, *rest = segments
    if not rest:
        return first
    *inner, last = rest
    return first + "".join(f"(?>.*?{one})" for one in inner if one) + f".*{last}"


def _atoms(text: str) -> list[tuple[str, str]]:
    """Each atom with its repeat, which may be empty."""
    found, at = [], 0
    while at < len(text):
        match = _ATOM.match(text, at)
        if match is None:
            raise ValueError(f"character {at + 1} of an expression is not supported; {SUPPORTED}")
        found.append((match["one"], match["repeat"]))
        at = match.end()
    return found


def _next(atoms: list[tuple[str, str]]) -> Iterator[str]:
    """What may come first of these, of which some may match nothing."""
    for atom, repeat in atoms:
        yield atom
        if repeat != "*":
            return


def _overlap(atom: str, following: str) -> bool:
    """Whether a repeated atom may match the beginning of what follows."""
    is_plain = (len(following) == 1 and following != ".") or (
        following[0] == "\\" and following[1] not in "dw"
    )
    return not is_plain or re.fullmatch(atom, following[-1]) is not None
