"""Servers of the tests' own, and a table that they write to."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devstack.mysql import Mysql
from devstack.mysql_software import MysqlSoftware, find_or_fetch
from devstack.processes import Children
from tests.harness.sql import ask

TABLE = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.t (id int PRIMARY KEY AUTO_INCREMENT, x int, note varchar(40))",
)


def made(
    owner: Children,
    folder: Path,
    *,
    software: MysqlSoftware | None = None,
    port: int | None = None,
    **options: str | int,
) -> Mysql:
    """A server of the newest MySQL, not started."""
    return Mysql(folder, software or find_or_fetch(owner), owner=owner, options=options, port=port)


def copied(server: Mysql, folder: Path) -> Path:
    """The disk of a server that is down, in another folder of servers."""
    shutil.copytree(server.data, folder / "data")
    return folder


def rotated(server: Mysql) -> str:
    """Begin a new binlog file; its name."""
    ask(server, "FLUSH BINARY LOGS")
    return str(files(server)[-1][0])


def files(server: Mysql) -> Sequence[Any]:
    """Its binlog files."""
    return ask(server, "SHOW BINARY LOGS")
