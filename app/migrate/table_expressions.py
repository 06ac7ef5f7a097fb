"""Lists of table expressions from other programs, checked before Aqueduct's filter takes them."""

from __future__ import annotations

import re

from tables.rules.table_filter import expressions

NOTHING = "(?!)"
"""An expression that matches no table."""


def fault_of(text: str) -> str:
    """Return why a list of expressions cannot be taken over as it is; empty if it can."""
    if _comma_within(text):
        return "an expression has a comma; write its alternatives as a list"
    try:
        expressions(text)
    except ValueError as error:
        return f"{error}; Java and Python differ here, so write it again"
    return ""


def literal_name(text: str) -> str:
    """Return the name that an expression without wildcards means; empty for another expression."""
    plain = re.sub(r"\\+\.", ".", text.strip().removeprefix("^").removesuffix("$"))
    return plain if re.fullmatch(r"[^\\^$*+?{}\[\]|()]+", plain) else ""


def _comma_within(text: str) -> bool:
    """Whether a comma is within brackets, where it does not separate two expressions."""
    depth = 0
    for sign in re.sub(r"\\.", "", text):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth > 0:
            return True
    return False
