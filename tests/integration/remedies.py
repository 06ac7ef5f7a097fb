"""The remedies of the preflight, run on the server as they are printed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from connectors.errors import PreflightError, SourceRefused
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import read_facts
from connectors.mysql.server.preflight import check
from connectors.mysql.server.replication import channels
from devstack.mysql import Mysql
from tests.harness.sql import connected
from tests.integration.worker.source import address_of

_STATEMENT = re.compile(r"(?:GRANT|SET) [^;\n]+;")
Settings = dict[str, str]


def repaired(mysql: Mysql, spoiled: Settings, *, host: str) -> tuple[str, str]:
    """What the preflight says of an account without grants and of these settings, and what it says once all
    that it printed was run; the settings are put back at last."""
    with connected(mysql) as cursor, _spoiled(cursor, spoiled):
        account = f"'o''bare'@'{host}'"
        cursor.execute(f"CREATE USER {account} IDENTIFIED BY 'aqueduct'")
        try:
            address = address_of(mysql, user="o'bare")
            with pytest.raises(SourceRefused) as refused:
                channels(address)
            first = says(address)
            for statement in _STATEMENT.findall(f"{refused.value} {first}"):
                cursor.execute(statement)
            assert channels(address) == []
            return first, says(address)
        finally:
            cursor.execute(f"DROP USER {account}")


def says(address: SourceAddress, databases: Sequence[str] = ("shapes_1",)) -> str:
    """The preflight's faults; empty where it passes."""
    try:
        check(
            read_facts(replace(address, server_id=7999)), address, history=True, databases=databases
        )
    except PreflightError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def _spoiled(cursor: Any, settings: Settings) -> Any:
    """Some global settings with other values."""
    before = {}
    for name, value in settings.items():
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        before[name] = cursor.fetchone()[0]
        cursor.execute(f"SET GLOBAL {name} = '{value}'")
    try:
        yield
    finally:
        for name, value in before.items():
            with contextlib.suppress(pymysql.Error):
                cursor.execute(f"RESET PERSIST {name}")
            cursor.execute(f"SET GLOBAL {name} = '{value}'")
