"""Interface between a benchmark and a peer that writes to Kafka.

Invariant: a peer only writes its settings and names its command; start, timing and verification are
the same for all.
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
    """One run of one peer: its workload, its topics and its folder."""

    workload: Workload
    partitions: int
    prefix: str
    folder: Path
    server_id: int
    """Unique per run: mysqld may still list the previous, killed run as a replica."""
    servers: Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The command to start."""

    command: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes in one message: rows of one kind, `c`, `u` or `d`."""

    op: str
    rows: int


class Peer(Protocol):
    """A program that reads a binlog and writes Kafka topics."""

    name: str
    main: str
    """The label of its main process in the tables."""
    child: str
    """The label of its child processes."""
    tombstones: bool
    """Whether a delete is followed by a record without a value."""
    batches: bool
    """Whether a message may hold many rows."""

    def program(self, task: Task) -> Program:
        """Write its settings into the task's folder; return its command."""

    def topics(self, task: Task) -> list[str]:
        """The topics of its rows."""

    def needs(self, task: Task) -> dict[str, int]:
        """The topics that must exist before it starts, with their numbers of partitions."""

    def changes(self, value: bytes) -> Changes:
        """The changes in a message."""


def enveloped(value: bytes) -> Changes:
    """One row in an envelope with its kind in `op`."""
    return Changes(orjson.loads(value)["op"], 1)
