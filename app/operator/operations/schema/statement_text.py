"""A file or an argument with several statements, split as the mysql program would.

Invariant: a statement ends at a delimiter outside strings, names and comments; ``DELIMITER`` lines
apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_DELIMITER = re.compile(r"\s*delimiter[ \t]+(\S+)[ \t]*(?:\n|$)", re.IGNORECASE)
_USE = re.compile(r"\s*use\s+(?:`((?:[^`]|``)+)`|([^\s;`]+))\s*", re.IGNORECASE)
_WHOLE = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|/\*.*?\*/|(?:--(?=\s|$)|\#)[^\n]*"""


def statements(text: str) -> Iterator[str]:
    """Yield each statement, without its delimiter; empty ones are skipped."""
    at, delimiter = 0, ";"
    while at < len(text):
        while found := _DELIMITER.match(text, at):
            delimiter, at = found[1], found.end()
        end = _end(text, at, delimiter)
        if not _is_empty(text[at:end]):
            yield text[at:end].strip()
        at = end + len(delimiter)


def used_database(statement: str) -> str | None:
    """Return the database that a USE statement selects; None for any other statement."""
    found = _USE.fullmatch(statement)
    return found and (found[1] or found[2]).replace("``", "`")


def _end(text: str, at: int, delimiter: str) -> int:
    for found in re.finditer(f"({re.escape(delimiter)})|{_WHOLE}|.", text[at:], re.DOTALL):
        if found[1]:
            return at + found.start()
    return len(text)


def _is_empty(statement: str) -> bool:
    """Return whether there are only comments; an executable comment is a statement."""
    plain = re.sub(r"/\*(?!!|M!).*?\*/|(?:--(?=\s|$)|#)[^\n]*", "", statement, flags=re.DOTALL)
    return not plain.strip()
