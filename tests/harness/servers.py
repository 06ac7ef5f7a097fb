"""Servers of single tests, of MySQL and MariaDB in each series.

A name is a series of MySQL (``9.7``, ``5.6``) or of MariaDB (``mariadb-11.8``). With ``lower-`` before it,
table names are in lower case; with `` without GTIDs`` after it, GTIDs are off.

Invariant: a series that this machine cannot run is skipped with its reason, and fails if CI is set.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from devstack import Stack, mariadb, mysql_software
from devstack.errors import MissingSoftwareError
from devstack.mysql import Mysql
from devstack.old_mysql import SERIES as OLD
from devstack.old_mysql import old_mysql
from devstack.processes import Children
from devstack.stack import SERVICES
from tests.harness.sql import run

Servers = Callable[[str], Mysql]
Options = Mapping[str, str | int]

WITHOUT_GTIDS = " without GTIDs"
GTIDS_OFF: Options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
FAST: Options = {"innodb_flush_method": "nosync"}
"""For hundreds of temporary tables, which need not survive a crash."""
_NUMBERS = itertools.count(1)


@contextlib.contextmanager
def own_stack(folder: Path, services: Sequence[str] = SERVICES, **more: Any) -> Iterator[Stack]:
    """Servers of some tests' own, killed at the end: nobody needs their data, and a shutdown takes seconds."""
    stack = Stack(folder, services, **more)
    try:
        stack.start()
        yield stack
    finally:
        stack.children.kill()


@contextlib.contextmanager
def on_demand(factory: pytest.TempPathFactory, options: Options | None = None) -> Iterator[Servers]:
    """The function from a name to the running server of that name; all end with the block."""
    owner, running = Children(), dict[str, Mysql]()

    def server(name: str) -> Mysql:
        if name not in running:
            folder = factory.mktemp(re.sub(r"[^\w.]+", "-", f"{name}-"))
            running[name] = started(name, folder, owner, options)
        return running[name]

    try:
        yield server
    finally:
        owner.kill()


def started(name: str, folder: Path, owner: Children, options: Options | None = None) -> Mysql:
    """Start a new server."""
    try:
        made = _made(name, folder, owner, dict(options or {}))
    except MissingSoftwareError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    made.start()
    return made


@contextlib.contextmanager
def own_mysql(stack: Stack, *statements: str, options: Options | None = None) -> Iterator[Mysql]:
    """A server of the newest MySQL after these statements."""
    server = stack.second_mysql(f"own-{next(_NUMBERS)}", options)
    server.start()
    try:
        run(server, *statements)
        yield server
    finally:
        server.kill()  # an orderly shutdown takes seconds, and the data is not needed


@contextlib.contextmanager
def own_server(
    name: str, folder: Path, *statements: str, options: Options | None = None
) -> Iterator[Mysql]:
    """A server of this name, for one test, after these statements."""
    owner = Children()
    try:
        server = started(name, folder, owner, options)
        run(server, *statements)
        yield server
    finally:
        owner.kill()


def _made(name: str, folder: Path, owner: Children, options: dict[str, str | int]) -> Mysql:
    plain = name.removeprefix("lower-").removesuffix(WITHOUT_GTIDS)
    if name.startswith("lower-"):
        options["lower_case_table_names"] = 1
    if name.endswith(WITHOUT_GTIDS):
        options |= GTIDS_OFF
    make, _, series = plain.rpartition("-")
    if make == "mariadb":
        found = mariadb.find_or_fetch(series, owner)
        return Mysql(folder, found, owner=owner, flavour=mariadb.MARIADB, options=options)
    if series in OLD:
        return old_mysql(series, folder, owner=owner, options=options)
    return Mysql(folder, mysql_software.find_or_fetch(owner), owner=owner, options=options)
