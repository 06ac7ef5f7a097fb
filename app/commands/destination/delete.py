"""`python -m app destination delete`: it is no longer run, and its cursor is kept.

Invariant: see ``control``.
"""

from __future__ import annotations

import argparse

from app.commands.destination.control import configure as configure
from app.commands.destination.control import say
from tables.operator.control import DesiredState


def run(options: argparse.Namespace) -> int:
    """See ``control.say``."""
    return say(
        options,
        DesiredState.DELETE,
        "delete requested; its cursor stays in the journal, and `destination add` resumes from it",
    )
