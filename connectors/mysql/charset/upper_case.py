"""Keywords in upper case.

Invariant: only ASCII letters change, so that no name with other letters becomes a keyword: the
dotless ``i`` does not become ``I``.
"""

from __future__ import annotations

_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def upper(text: str) -> str:
    """A word in upper case, as the server's lexer compares it with its keywords."""
    return text.upper() if text.isascii() else text.translate(_UPPER)
