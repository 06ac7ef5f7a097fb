"""`python -m app destination restart`: a new run begins.

Invariant: see ``control``.
"""

from __future__ import annotations

import argparse

from app.commands.destination.control import configure as configure
from app.commands.destination.control import say


def run(options: argparse.Namespace) -> int:
    """See ``control.say``."""
    return say(options, None, "restart requested")
