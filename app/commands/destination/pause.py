"""`python -m app destination pause`: its leader keeps it and reads nothing.

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
        DesiredState.PAUSE,
        "pause requested; the leader ends its transaction and stops reading",
    )
