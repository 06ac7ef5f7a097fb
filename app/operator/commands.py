"""The commands: their groups, the module of each, and the parser of their words.

argparse by itself assigns all positional arguments at the first of them, so that ``TABLE`` would be unknown in
``DEST --where X TABLE``.

Invariant: a command is ``configure_<name>`` and ``run_<name>`` of its group's module, or of the module that the
group names for it. Only the module of the called command is imported, so a command needs only the libraries
that it uses. What argparse accepts is parsed as argparse parses it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of a module."""

    configure: Callable[[argparse.ArgumentParser], object]
    """Adds the command's arguments."""
    run: Callable[[argparse.Namespace], int]
    """Runs the command; returns the exit code. An AqueductError is reported to the operator in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Commands about one subject."""

    help: str
    commands: Mapping[str, str]
    """Each command's name with its line of help."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Commands that are not in the group's own module, each with its module."""


GROUPS: Mapping[str, Group] = {
    "destination": Group(
        help="destinations: their leaders, states and desired states",
        commands={
            "list": "list all, with state, leader, lag, position and desired state",
            "pause": "keep the leader, and stop reading until resumed",
            "resume": "continue after a pause or a stop",
            "restart": "start a new run, for example after an error that needs an operator",
            "accept-topic": "continue with a topic that was deleted and made again, or restored",
            "stop": "run it on no worker until resumed",
            "add": "run one that is new in the settings, or was deleted",
            "delete": "stop it for good and hide it; its cursor is kept",
        },
    ),
    "source": Group(
        help="the servers that a destination can be read from",
        commands={"switch": "read another of a destination's sources"},
    ),
    "schema": Group(
        help="the schema history: every table's definition at any position of the binlog",
        commands={
            "quarantine": "list the quarantined tables and the reasons",
            "resolve": "give a quarantined table a definition, so that it is published again",
            "show": "print a table's definition at a position of the binlog",
            "history": "list the versions of a table, or all tables",
            "diff": "print the differences of a table between two positions",
            "check": "compare the history with the server's present tables",
            "audit": "list the statements that changed tables: who, when, where",
            "impact": "report what a statement would mean to subscribers, before it is run",
            "rebuild": "print the statements that recreate all tables",
            "replay": "read statements from files and print the resulting tables; needs no server",
        },
        modules={
            "quarantine": "quarantine",
            "resolve": "quarantine",
            "impact": "impact",
            "replay": "replay",
        },
    ),
    "snapshot": Group(
        help="the rows that exist already: read and published while changes are",
        commands={
            "start": "publish the existing rows of tables, or those by a condition",
            "plan": "print what the sink must read to load existing rows of tables itself",
            "status": "show what is read of each table, and how long it may take",
            "pause": "read no more for now",
            "resume": "continue after a pause, after the last row that was published",
            "stop": "read no more; the other existing rows are not published",
        },
    ),
    "cursor": Group(
        help="the position of a destination in its source, and how to move it",
        commands={
            "show": "print the cursor, the operator skips, and who changed it",
            "set": "continue from another position",
            "skip": "skip exactly one transaction",
            "export": "print the cursor as JSON, for another installation",
            "import": "set the cursor to one that was exported",
        },
    ),
    "journal": Group(
        help="the topic with the cursors, after another program has written to it",
        commands={
            "repair": "rewrite unreadable records as they were before",
            "abort": "abort another producer's open transaction that blocks readers of the journal",
        },
    ),
    "mapping": Group(
        help="mappings of real tables to logical tables, topics and tags",
        commands={
            "check": "list the faults of a mapping, or what it states about tables; needs no server",
            "get": "print a version of the mapping in ZooKeeper",
            "set": "store a mapping as the newest version, which all workers follow",
            "diff": "list the differences of two versions, or of a version and a file",
            "history": "list the versions: who stored each, when, and why",
            "rollback": "store an earlier version again, as the newest",
            "prune": "remove the oldest versions",
            "try": "report what a new mapping would publish differently; nothing is switched",
        },
        modules={"try": "trial.trial"},
    ),
    "shards": Group(
        help="the real tables of logical ones, and how they differ while they are altered one by one",
        commands={
            "show": "list the logical tables, or what each shard of one lacks",
            "resolve": "decide on a difference: exclude a shard, accept it, or take a column's type",
        },
    ),
    "subscriber": Group(
        help="groups of subscribers, and their positions in the tables' topics",
        commands={
            "list": "list the groups, with state and topics",
            "position": "print where a group is: offset, lag, and the next change's seq and GTID",
            "set": "set the position from which a group continues",
            "reset": "forget a group's position, so that its start position applies again",
        },
    ),
    "dead-letters": Group(
        help="rows that could not be decoded",
        commands={"list": "list them, with position and reason"},
    ),
}


UNGROUPED: Mapping[str, str] = {
    "import-canal": "turn Canal's configuration into settings, a mapping and a report; needs no server",
    "import-debezium": "turn a Debezium connector into settings, a mapping and a report; needs no server",
    "audit": "prove that nothing was lost or repeated: compare the source's binlog with the topics in Kafka",
    "validate": "compare the source's present rows with the topics in Kafka, while the worker runs",
}
"""Commands in no group, each with its line of help."""
_UNGROUPED_MODULES = {"import-canal": "migration", "import-debezium": "migration"}
"""The modules of ungrouped commands whose module has another name."""


def command(group: str, name: str) -> Command:
    """Import the module of a command, and return ``configure_<name>`` and ``run_<name>`` of it."""
    return _command(GROUPS[group].modules.get(name, group), name)


def ungrouped_command(name: str) -> Command:
    """Import the module of a command in no group, and return its two functions."""
    return _command(_UNGROUPED_MODULES.get(name, name), name)


def _command(module: str, name: str) -> Command:
    found = import_module(f"app.operator.{module.replace('-', '_')}")
    name = name.replace("-", "_")
    return Command(getattr(found, f"configure_{name}"), getattr(found, f"run_{name}"))


class CommandParser(argparse.ArgumentParser):
    """Parses the words of a command; for a group of commands, only chooses the command."""

    _is_parsing = False

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for its namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words, in any order; also return the words that are not known."""
        # ``parse_known_intermixed_args`` calls this method, for the options and for the rest.
        if self._is_parsing or self._has_commands():
            return super().parse_known_args(args, namespace)
        self._is_parsing = True
        try:
            found: tuple[Any, list[str]] = self.parse_known_intermixed_args(args, namespace)
            return found
        finally:
            self._is_parsing = False

    def _has_commands(self) -> bool:
        return any(isinstance(one, argparse._SubParsersAction) for one in self._actions)
