"""What a benchmark asks of a peer that writes to Kafka, and tells it.

The law: a peer only writes its settings and names its command; starting, timing and judging are the same for
all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from bench.binlogs import Workload
from bench.servers import Servers

FIRST_SERVER_ID = 7100


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run of one peer: what to read, where to write, and a folder of its own."""

    workload: Workload
    partitions: int
    prefix: str
    folder: Path
    server_id: int
    """No two runs have the same: mysqld may still take the one before, which was killed, for a replica."""
    servers: Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start."""

    command: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Changes:
    """What one message tells: rows of one kind, `c`, `u` or `d`."""

    op: str
    rows: int


class Peer(Protocol):
    """A program that reads a binlog and writes Kafka topics."""

    name: str
    main: str
    """What its first process is called in the tables."""
    child: str
    """What each process that the first one starts is called."""
    tombstones: bool
    """Whether a delete is followed by a record without a value."""
    batches: bool
    """Whether a message may hold many rows."""

    def program(self, task: Task) -> Program:
        """Write its settings into the task's folder; how to start it."""

    def topics(self, task: Task) -> list[str]:
        """The topics that its rows go to."""

    def needs(self, task: Task) -> dict[str, int]:
        """Topics and their partitions that must be there before it starts."""

    def changes(self, value: bytes) -> Changes:
        """What a message tells."""


def enveloped(value: bytes) -> Changes:
    """One row in an envelope that has its kind in `op`."""
    return Changes(orjson.loads(value)["op"], 1)
