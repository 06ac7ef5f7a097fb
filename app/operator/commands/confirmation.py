"""Confirmation of what cannot be undone.

Invariant: nothing is changed before the operator has agreed, by an option or by typing the name of what is
changed.
"""

from __future__ import annotations

import sys

from connectors.errors import NotConfirmed
from wire.text import printed


def ask_for_name(name: str, effect: str, *, remedy: str = "", **context: str) -> None:
    """Return if the operator types the name after the effect is shown; raise NotConfirmed."""
    if not sys.stdin.isatty():
        raise NotConfirmed(effect, remedy=remedy, **context)
    sys.stderr.write(f"{printed(effect)}.\nType {name!r} to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != name:
        raise NotConfirmed(effect, remedy=remedy, **context)
