"""A table that was given up, among others."""

from __future__ import annotations

from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from connectors.mysql.ddl.definition import TableName
from tests.unit.app.worker.pipeline.gather.parked import KNOWN, ORDERS, WAITING
from tests.unit.app.worker.pipeline.runs import Record

GIVEN_UP: dict[TableName, Schema] = {**KNOWN, ORDERS: Unpublished.GIVEN_UP}


def orders(records: list[Record]) -> list[Record]:
    return [record for record in records if record.topic in ("aq.shop.orders", WAITING)]
