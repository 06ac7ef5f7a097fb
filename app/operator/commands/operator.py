"""The person at the command line: the user's name, and reports during an operation."""

from __future__ import annotations

import os
import sys

from app.operator.operations.source_connection import UnreachableSource
from wire.text import printed


def operator() -> str:
    """Return the calling user, for the record."""
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or f"uid {os.getuid()}"


def report_unreachable(one: UnreachableSource) -> None:
    """Report a source that does not answer, and the one tried instead."""
    why = printed(one.error.detail)
    sys.stderr.write(f"{one.address} does not answer, asking {one.instead} instead: {why}\n")
