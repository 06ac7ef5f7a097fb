"""Software of the peers, downloaded on first use and pinned by SHA-256."""

from __future__ import annotations

from pathlib import Path

from devstack import jars, java
from devstack.paths import CACHE
from devstack.processes import Children

_HERE = Path(__file__).parent
LOCKS = {"debezium": _HERE / "debezium.lock", "canal": _HERE / "canal.lock"}


def java_and_jars(name: str, owner: Children) -> tuple[str, Path]:
    """The Java executable, and the folder with a peer's jars."""
    program = java.find_or_install(owner)
    jars.fetch([name], program, owner=owner, locks=LOCKS)
    return program, CACHE / "jars" / name
