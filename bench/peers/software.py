"""Fetches what peers are made of, pinned by SHA-256, when a benchmark first needs it."""

from __future__ import annotations

from pathlib import Path

from devstack import jars, java
from devstack.paths import CACHE
from devstack.processes import Children

_HERE = Path(__file__).parent
LOCKS = {"debezium": _HERE / "debezium.lock", "canal": _HERE / "canal.lock"}


def java_and_jars(name: str, owner: Children) -> tuple[str, Path]:
    """A Java, and the folder with the jars of a peer."""
    program = java.find_or_install(owner)
    jars.fetch([name], program, owner=owner, locks=LOCKS)
    return program, CACHE / "jars" / name
