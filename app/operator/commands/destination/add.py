"""`python -m app destination add`: run one that is new in the settings, or was deleted.

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
        DesiredState.RUN,
        "requested to run; workers that do not know it reload their settings",
    )
