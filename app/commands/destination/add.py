"""`python -m app destination add`: run one that is new in the settings, or was deleted.

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
        DesiredState.RUN,
        "requested to run; workers that do not know it reload their settings",
    )
