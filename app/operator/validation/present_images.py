"""Images of rows in the columns that their table has now, and their digests.

Invariant: a record that was published before a statement changed the table is compared as a subscriber reads it
now, by the rules of the wire contract; what these rules do not determine is named as a doubt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from app.worker.pipeline.formats.protocol import Image, WrittenImage
from connectors.mysql.ddl.definition import TableName
from tables.history.present_columns import Described, Followed, PresentColumns, Versions
from tables.rules.mapping.rules import DEBEZIUM, NAMING_FORMATS
from tables.rules.routes.routes import Route
from wire.table_version import Definition


def stored(image: Image) -> bytes:
    """Return an image as text that is equal for equal images."""
    return orjson.dumps(image, option=orjson.OPT_SORT_KEYS)


def digest_of(text: bytes) -> bytes:
    """Return the checksum by which images are compared."""
    return hashlib.blake2b(text, digest_size=16).digest()


def own_image(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image of the present columns, by names in lower case."""
    return {name.lower(): value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class VersionImages:
    """The images of one version of a table."""

    names: Mapping[str, str]
    """The present name of each column of the version that still exists; both names are in lower case."""
    values: Mapping[str, Any]
    """The values of the version's rows in columns that were added later."""
    undetermined: str | None = None
    """Why the version's images do not determine the present images."""
    doubt: str | None = None
    """Why a statement that changed values may have caused a difference."""

    def lacks_any(self, values: Image) -> bool:
        """Return whether an image lacks one of the version's columns."""
        return not self.names.keys() <= {name.lower() for name in values}

    def image(self, values: Image) -> dict[str, Any]:
        """Return an image of the version in the present columns."""
        image = dict(self.values)
        for name, value in values.items():
            if (own := self.names.get(name.lower())) is not None:
                image[own] = value
        return image


@dataclass(frozen=True, slots=True, kw_only=True)
class TableForm:
    """The form of the records of a table."""

    format: str = DEBEZIUM
    written: WrittenImage | None = None
    """Converts images of the envelope to images of the format; None: they are the same."""
    logical: TableName | None = None
    """The name for subscribers, by which records in some formats name the table."""
    names_real: bool = False
    """Whether the keys of its records, and the record of a TRUNCATE, name the real table."""


ENVELOPES = TableForm()


def names_its_table(route: Route, others: Iterable[Route]) -> bool:
    """Return whether a table's records show that they belong to no other table.

    Records in some formats have only the table's name for subscribers. ``others`` are the routes of the other
    tables.
    """
    if route.format in NAMING_FORMATS or route.shard is not None:
        return True
    return all(one.logical != route.logical or one.shard is not None for one in others)


class PresentImages:
    """The images of one real table."""

    def __init__(
        self,
        name: TableName,
        versions: Versions,
        definition: Definition,
        form: TableForm = ENVELOPES,
    ) -> None:
        """``versions`` are the published versions; ``definition`` has the columns as they are published now."""
        self._name, self.form = name, form
        own = {key: one for key, one in versions.items() if key[:2] == name}
        self._published = {number for _, _, number in own}
        self._now = 1 + max(self._published, default=0)
        own[(*name, self._now)] = Described.of(definition)
        self._versions, self._columns = own, PresentColumns(own)
        self._followed = Followed({name: self._now}, is_apart=True)
        self._read: dict[int, VersionImages] = {}

    def only(self) -> VersionImages | None:
        """Return the images of the only version; None if there are several versions."""
        return self.of(min(self._published)) if len(self._published) == 1 else None

    def of(self, version: int) -> VersionImages | None:
        """Return the images of a version; None if it is not known."""
        found = self._read.get(version)
        if found is None and version in self._published:
            found = self._read[version] = self._of(version)
        return found

    def _of(self, version: int) -> VersionImages:
        key, now = (*self._name, version), self._versions[(*self._name, self._now)]
        present = self._columns.of(key, self._name, self._followed)
        columns = {name.lower() for name in now.columns}
        has = set(present.names.values())
        lacks, converted = list[str](), list[str]()
        for name, kind, initial in zip(now.columns, now.types, now.initial, strict=True):
            if name.lower() not in has:
                if initial is None or "value" not in initial:
                    lacks.append(name)
            elif present.types.get(name.lower()) != kind:
                converted.append(name)
        return VersionImages(
            {name: own for name, own in present.names.items() if own in columns},
            self._written(
                {
                    name: present.values[name.lower()]
                    for name in now.columns
                    if name.lower() in present.values
                }
            ),
            undetermined=(lacks and f"rows from before column {lacks[0]} was added") or None,
            doubt=(converted and f"rows from before column {converted[0]} was altered") or None,
        )

    def _written(self, values: Image) -> Image:
        """Values of columns that were added later, as the records of the table have them."""
        written = self.form.written
        return own_image(values if written is None or not values else written(values))
