"""The groups of commands and where each command is, so that none is imported before it is called.

The law: a module named here has ``configure`` and ``run``; it is named as the command, in its group's
folder or, for a command in no group, in this one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from typing import Protocol, cast


class Command(Protocol):
    """What the module of a command offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Say which arguments it takes."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; return the exit code. An AqueductError is told to the operator in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Commands about one matter."""

    help: str
    commands: Mapping[str, str]
    """From the name of each to what its line of help says."""


GROUPS: Mapping[str, Group] = {
    "destination": Group(
        help="which destinations there are, who leads them, and what they are to do",
        commands={
            "list": "list all, with their leaders and what is wanted of them",
            "pause": "keep the leader, and read nothing until it is resumed",
            "resume": "go on after a pause or a stop",
            "restart": "begin a new run, as after an error that waits for a person",
            "stop": "let nobody lead it until it is resumed",
            "add": "run one that is new in the settings, or was deleted",
            "delete": "run it no more, and tell no more of it; its cursor stays",
        },
    ),
    "source": Group(
        help="the servers that a destination can be read from",
        commands={"switch": "read another of a destination's sources"},
    ),
    "schema": Group(
        help="every table's columns as of any place of the binlog",
        commands={
            "quarantine": "list the tables that are set aside, and why",
            "resolve": "say how a table that is set aside is to be read, so that it comes back",
            "show": "print a table as it was at a place of the binlog",
            "history": "list what became of a table, or all tables",
            "diff": "print how a table at one place differs from another",
            "check": "compare the history with the server as it is now",
            "audit": "list the statements that changed tables: who, when, where",
            "impact": "tell what a statement would mean to subscribers, before it is run",
            "rebuild": "print the statements that make all tables again",
            "replay": "read statements, and print the tables that they make; needs no server",
        },
    ),
    "cursor": Group(
        help="where a destination is in its source, and how to move it",
        commands={
            "show": "print the cursor, what is to be skipped, and who has changed it",
            "set": "go on from another place",
            "skip": "leave exactly one transaction out",
            "export": "print the cursor as JSON, for another installation",
            "import": "take a cursor that was exported",
        },
    ),
    "journal": Group(
        help="the topic that holds the cursors, where somebody else has written to it",
        commands={
            "mend": "write records again that cannot be read, as they were before",
            "abort": "end a transaction of another producer that keeps the journal from being read",
        },
    ),
    "dead-letters": Group(
        help="rows that could not be decoded",
        commands={"list": "list them: where each stands, and why"},
    ),
}


ALONE: Mapping[str, str] = {
    "audit": "prove that nothing was lost or repeated: the source's own binlog against what stands in Kafka",
}
"""Commands in no group, from the name of each to what its line of help says."""


def command(group: str, name: str) -> Command:
    """Import the module of a command: ``app.commands.<group>.<name>``, with ``_`` for ``-``, and after a
    name that is a keyword."""
    module = f"{name}_" if iskeyword(name) else name
    return cast(Command, import_module(f"app.commands.{group}.{module}".replace("-", "_")))


def alone(name: str) -> Command:
    """Import the module of a command in no group: ``app.commands.<name>``."""
    return cast(Command, import_module(f"app.commands.{name}"))
