"""`python -m app destination pause`: its leader keeps it and reads nothing.

Invariant: see ``desired_state``.
"""

from __future__ import annotations

import argparse

from app.operator.commands.destination.desired_state import configure as configure
from app.operator.commands.destination.desired_state import request
from tables.state.operator_requests import DesiredState


def run(options: argparse.Namespace) -> int:
    """See ``desired_state.request``."""
    return request(
        options,
        DesiredState.PAUSE,
        "pause requested; the leader ends its transaction and stops reading",
    )
