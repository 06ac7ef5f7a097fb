"""`python -m app snapshot resume`: its reading resumes after the last row that was published.

Invariant: see ``request``.
"""

from __future__ import annotations

import argparse

from app.commands.snapshot.request import configure as configure
from app.commands.snapshot.request import request
from app.operations.snapshot.request import WantedSnapshot
from tables.snapshots.request import SnapshotAction


def run(options: argparse.Namespace) -> int:
    """See ``request.request``."""
    wanted = WantedSnapshot(action=SnapshotAction.RESUME, tables=options.tables)
    return request(options.destination, wanted, options)
