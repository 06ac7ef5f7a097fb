"""`python -m app destination delete`: it is no longer run, and its cursor is kept.

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
        DesiredState.DELETE,
        "delete requested; its cursor stays in the journal, and `destination add` resumes from it",
    )
