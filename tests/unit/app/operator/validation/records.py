"""Records of a topic as a worker would write them, and the images of their table."""

from __future__ import annotations

from typing import Any

import orjson

from app.operator.validation.folded_topic import SelectedRow
from app.operator.validation.present_images import PresentImages, stored
from connectors.kafka.reading import StoredRecord
from tables.history.present_columns import Described, Versions
from wire.table_version import Column, Definition

NAME = ("shop", "t")


def column(name: str, kind: str = "int", **more: Any) -> Column:
    return Column(name=name, type=kind, nullable=True, charset=None, **more)


def definition(*columns: Column) -> Definition:
    return Definition(columns=columns, primary_key=("id",))


def version(definition: Definition) -> Described:
    columns = definition.columns
    return Described(
        columns=tuple(one.name for one in columns),
        types=tuple(one.type for one in columns),
        charsets=tuple(one.charset for one in columns),
        primary_key=definition.primary_key,
        topic="aq.shop.t",
        ids=tuple(one.id for one in columns),
        initial=tuple(one.initial for one in columns),
    )


PLAIN = definition(column("id"), column("v"))
VERSIONS: Versions = {(*NAME, 1): version(PLAIN)}


def images(versions: Versions | None = None, now: Definition = PLAIN) -> PresentImages:
    return PresentImages(NAME, versions or VERSIONS, now)


def key(number: int) -> bytes:
    return orjson.dumps({"id": number})


def record(
    number: int | None,
    v: Any,
    *,
    at: int,
    seq: int | None = None,
    op: str = "u",
    epoch: int = 1,
    table: tuple[str, str] = NAME,
    destination: str = "shop",
    schema: int = 1,
    after: dict[str, Any] | None = None,
    **more: Any,
) -> StoredRecord:
    """A record of a row with this number and value; ``seq``: as its offset if not given."""
    image = None if op in "dt" else {"id": number, "v": v} if after is None else after
    source = {
        "name": destination, "db": table[0], "table": table[1], "epoch": epoch,
        "seq": at + 1 if seq is None else seq, "schema": schema,
    }  # fmt: skip
    value = {"before": None, "after": image, "source": source, "op": op, **more}
    return StoredRecord(b"" if number is None else key(number), orjson.dumps(value), at)


def tombstone(number: int, *, at: int) -> StoredRecord:
    return StoredRecord(key(number), b"", at)


def selected(number: int, v: Any) -> SelectedRow:
    return SelectedRow(key(number), stored({"id": number, "v": v}), (str(number),))
