"""Binlogs of the workloads, written once by a real server, with their stored positions.

Invariant: stored positions are reused only if the recipes are the same and the server still has
those files; else everything is written again.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pymysql

from bench.workloads import BASE, DATABASE, MARK, Recipe, digest
from devstack.mysql import Mysql
from devstack.progress import report_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogRange:
    """The start of a workload, and the file with the row of ``mark`` after it."""

    file: str
    gtids: str
    """All transactions before the workload."""
    end_file: str
    end_gtids: str
    bytes: int
    """Bytes of binlog."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A recipe and its position in the server's binlog."""

    recipe: Recipe
    position: BinlogRange


def forget_other(folder: Path, recipes: Sequence[Recipe]) -> None:
    """Remove a server's data that was not written by these recipes, or not completely."""
    memory = _memory(folder)
    if memory.get("digest") != digest(recipes):
        shutil.rmtree(folder / "mysql", ignore_errors=True)
        _file(folder).unlink(missing_ok=True)


def workloads(mysql: Mysql, folder: Path, recipes: Sequence[Recipe]) -> dict[str, Workload]:
    """The workloads by name, stored or written now."""
    positions = _memory(folder).get("places")
    if not positions or not _still_there(mysql, positions):
        _file(folder).unlink(missing_ok=True)
        positions = _make(mysql, recipes)
        memory = {"digest": digest(recipes), "places": positions}
        _file(folder).write_text(json.dumps(memory, indent=1))
    return {
        recipe.name: Workload(recipe, BinlogRange(**positions[recipe.name])) for recipe in recipes
    }


def _file(folder: Path) -> Path:
    return folder / "workloads.json"


def _memory(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(_file(folder).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _still_there(mysql: Mysql, positions: dict[str, Any]) -> bool:
    with _connect(mysql) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        sizes = {row[0]: row[1] for row in cursor.fetchall()}
    return all(
        position["end_file"] in sizes and position["bytes"] == _size(sizes, position)
        for position in positions.values()
    )


def _make(mysql: Mysql, recipes: Sequence[Recipe]) -> dict[str, Any]:
    positions = {}
    with _connect(mysql) as connection, connection.cursor() as cursor:
        for statement in (*BASE, *(text for recipe in recipes for text in recipe.schema)):
            cursor.execute(statement)
        for recipe in recipes:
            began = time.monotonic()
            report_progress("bench", f"making {recipe.name}: {recipe.about}")
            file, gtids = _next_file(cursor)
            cursor.execute(recipe.call)
            end_file, end_gtids = _next_file(cursor)
            cursor.execute(f"INSERT INTO {MARK} (workload) VALUES (%s)", [recipe.name])
            cursor.execute("SHOW BINARY LOGS")
            position = {"file": file, "end_file": end_file}
            size = _size({row[0]: row[1] for row in cursor.fetchall()}, position)
            positions[recipe.name] = asdict(
                BinlogRange(
                    file=file, gtids=gtids, end_file=end_file, end_gtids=end_gtids, bytes=size
                )
            )
            seconds = time.monotonic() - began
            report_progress(
                "bench", f"{recipe.name} is made: {size / 2**20:.0f} MiB of binlog, {seconds:.0f} s"
            )
        _next_file(cursor)
    return positions


def _next_file(cursor: Any) -> tuple[str, str]:
    """Start a binlog file; return its name and the transactions before it."""
    cursor.execute("FLUSH BINARY LOGS")
    cursor.execute("SHOW BINARY LOG STATUS")
    status = cursor.fetchone()
    return str(status[0]), "".join(str(status[4]).split())


def _size(sizes: dict[str, int], position: dict[str, str]) -> int:
    """Bytes of a workload's files, without its end file."""
    return sum(
        size for name, size in sizes.items() if position["file"] <= name < position["end_file"]
    )


def _connect(mysql: Mysql) -> Any:
    connection = pymysql.connect(host=mysql.host, port=mysql.port, user="root", autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE %s", [DATABASE])
        if cursor.fetchone():
            cursor.execute(f"USE {DATABASE}")
    return connection
