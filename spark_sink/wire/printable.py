"""Printable text: one line stays one line, with any name of a table or a column in it."""

from __future__ import annotations


def printed(text: str) -> str:
    """The text with each character that is not visible as its escape.

    So no name ends a line, moves the cursor of a terminal, or turns the direction in which it is read.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
