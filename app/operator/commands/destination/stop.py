"""`python -m app destination stop`: no worker leads it until it is resumed.

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
        options, DesiredState.STOP, "stop requested; no worker runs it until it is resumed"
    )
