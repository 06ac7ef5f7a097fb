"""`python -m app snapshot resume`: its reading resumes after the last row that was published.

Invariant: see ``request``.
"""

from __future__ import annotations

import argparse

from app.operator.commands.snapshot.request import configure as configure
from app.operator.commands.snapshot.request import request
from app.operator.operations.snapshot.request import WantedSnapshot
from tables.state.snapshots.request import SnapshotAction


def run(options: argparse.Namespace) -> int:
    """See ``request.request``."""
    wanted = WantedSnapshot(action=SnapshotAction.RESUME, tables=options.tables)
    return request(options.destination, wanted, options)
