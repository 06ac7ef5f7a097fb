"""`python -m app destination restart`: a new run begins.

Invariant: see ``desired_state``.
"""

from __future__ import annotations

import argparse

from app.operator.commands.destination.desired_state import configure as configure
from app.operator.commands.destination.desired_state import request


def run(options: argparse.Namespace) -> int:
    """See ``desired_state.request``."""
    return request(options, None, "restart requested")
