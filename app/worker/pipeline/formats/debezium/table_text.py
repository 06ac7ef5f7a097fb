"""The constant text of the envelopes of a table version, rendered once."""

from __future__ import annotations

from typing import Any

import orjson

from app.version import __version__
from app.worker.pipeline.formats.debezium.tags import RowTags
from connectors.kafka.record_batches import Headers
from tables.rules.routes.routes import Route
from tables.rules.table_version import TableVersion
from wire.records import HEADER_TAGS, WIRE_VERSION


class TableText:
    """The constant text, for records with the same tags."""

    __slots__ = (
        "_by_tags",
        "_names",
        "_route",
        "head",
        "headers",
        "middle",
        "tags",
        "tail",
        "version",
    )

    def __init__(
        self, version: TableVersion, route: Route | None, *, connector: str, epoch: int
    ) -> None:
        """``route``: that of the version's table; None if it is not captured any more."""
        self.version, self._route = version, route
        connector_fields = {
            "version": __version__,
            "connector": connector,
            "name": version.destination,
        }
        self.head = f',"source":{{{members(connector_fields)},"server_id":'
        self._names = {"db": version.database, "table": version.table}
        numbers = {"epoch": epoch, "schema": version.version, "wire": WIRE_VERSION}
        self.tail = f",{members(numbers)}}},"
        stated = route.mapped.tags if route is not None and route.mapped is not None else ()
        self.tags = RowTags(stated, [one.name for one in version.definition.columns])
        self._by_tags: dict[tuple[str, ...], TableText] = {}
        self._set_tags(self.tags.all)

    def with_tags(self, tags: tuple[str, ...]) -> TableText:
        """Return the text of the records with these tags."""
        found = self._by_tags.get(tags)
        if found is None:
            found = self._by_tags[tags] = object.__new__(TableText)
            found.version, found._route, found._names = self.version, self._route, self._names
            found.head, found.tail, found.tags = self.head, self.tail, self.tags
            found._set_tags(tags)
        return found

    def _set_tags(self, tags: tuple[str, ...]) -> None:
        self.middle = f",{members({**self._names, **mapped_fields(self._route, tags)})},"
        self.headers: Headers = tag_headers(tags)


def mapped_fields(route: Route | None, tags: tuple[str, ...]) -> dict[str, Any]:
    """Return the members of ``source`` that a mapping adds; none if it does not name the table."""
    if route is None or route.mapped is None:
        return {}
    names = dict(zip(("logical_db", "logical_table"), route.logical, strict=True))
    return {**names, "tags": tags} if tags else {**names}


def tag_headers(tags: tuple[str, ...]) -> Headers:
    """Return the header of tags, if there are any."""
    return [(HEADER_TAGS, ",".join(tags).encode())] if tags else []


def members(fields: dict[str, Any]) -> str:
    """Return the members of a JSON object, without its braces."""
    return orjson.dumps(fields).decode()[1:-1]
