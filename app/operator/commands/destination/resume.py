"""`python -m app destination resume`: continue after a pause or a stop.

Invariant: see ``desired_state``.
"""

from __future__ import annotations

import argparse

from app.operator.commands.destination.desired_state import configure as configure
from app.operator.commands.destination.desired_state import request
from tables.state.operator_requests import DesiredState


def run(options: argparse.Namespace) -> int:
    """See ``desired_state.request``."""
    return request(options, DesiredState.RUN, "resume requested")
