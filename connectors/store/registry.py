"""A client of a schema registry, and its in-memory twin.

Invariant: the registry itself decides which id a schema has; the same schema of a subject has the same id,
whichever worker registers it. A schema is registered before a record with its id is published.
Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote

from connectors.errors import (
    AqueductError,
    SchemaRefused,
    SchemaRegistryDenied,
    SchemaRegistryLost,
)
from connectors.store.registry_requests import Answer, Requests

_TYPE = "application/vnd.schemaregistry.v1+json"
_DENIED = (401, 403)
_NO_SUCCESS, _NOT_FOUND, _TOO_MANY, _SERVER_FAULT = 300, 404, 429, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAccess:
    """The connection to a registry; no ``url``: there is none."""

    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    """Certificates of the authorities that are trusted; empty: the system's."""


class SchemaRegistry(Protocol):
    """Ids of schemas."""

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema of a subject, to which it is added if it is new."""

    def schema(self, number: int) -> str | None:
        """Return the schema with an id; None if there is none."""


class ConfluentRegistry:
    """A registry over HTTP; knows the ids that it was given."""

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._requests = Requests(access.url, self._context)
        self._known: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str) -> int:
        """See SchemaRegistry; raise SchemaRegistryLost, SchemaRegistryDenied or SchemaRefused."""
        found = self._known.get((subject, schema))
        if found is None:
            found = self._known[subject, schema] = self._register(subject, schema)
        return found

    def _register(self, subject: str, schema: str) -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        headers = {"Content-Type": _TYPE, "Accept": _TYPE, **self._authorization()}
        try:
            answer = self._requests.post(path, json.dumps({"schema": schema}).encode(), headers)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._error(SchemaRegistryLost, str(error), subject) from error
        if answer.status >= _NO_SUCCESS:
            raise self._error(_kind(answer.status), _said(answer), subject)
        try:
            return int(json.loads(answer.body)["id"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"its answer has no id: {error!r}"
            raise self._error(SchemaRegistryLost, what, subject) from error

    def schema(self, number: int) -> str | None:
        """See SchemaRegistry; raise SchemaRegistryLost or SchemaRegistryDenied."""
        of = f"id {number}"
        try:
            answer = self._requests.get(
                f"/schemas/ids/{number}", {"Accept": _TYPE, **self._authorization()}
            )
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._error(SchemaRegistryLost, str(error), of) from error
        if answer.status == _NOT_FOUND:
            return None
        if answer.status >= _NO_SUCCESS:
            raise self._error(_kind(answer.status), _said(answer), of)
        try:
            return str(json.loads(answer.body)["schema"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"its answer has no schema: {error!r}"
            raise self._error(SchemaRegistryLost, what, of) from error

    def _authorization(self) -> dict[str, str]:
        if not self._access.username:
            return {}
        # A password in a file is read again when it is encoded.
        pair = self._access.username.encode() + b":" + self._access.password.encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._access.ca_file or None)

    def _error(self, kind: type[AqueductError], what: str, subject: str) -> AqueductError:
        return kind(what, registry=self._access.url, subject=subject)


class MemoryRegistry:
    """A registry in memory: the twin of ConfluentRegistry."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}

    def register(self, subject: str, schema: str) -> int:
        """See SchemaRegistry."""
        known = {text: number for number, text in self.schemas.items()}
        number = known.get(schema, len(self.schemas) + 1)
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def schema(self, number: int) -> str | None:
        """See SchemaRegistry."""
        return self.schemas.get(number)


def _kind(status: int) -> type[AqueductError]:
    if status in _DENIED:
        return SchemaRegistryDenied
    if status == _TOO_MANY or status >= _SERVER_FAULT:
        return SchemaRegistryLost
    return SchemaRefused


def _said(answer: Answer) -> str:
    """The status, with the registry's own text."""
    try:
        text = str(json.loads(answer.body)["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.reason
    return f"{answer.status}: {text}"
