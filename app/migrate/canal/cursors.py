"""Canal's cursors: `meta.dat`, `parse.dat`, and the JSON of its ZooKeeper nodes `cursor` and `parse`.

Format: fastjson's serialization of LogPosition, in which the field of the position is spelled `postion`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.migrate.canal.configuration_keys import Keys
from connectors.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last change that a client acknowledged, or that Canal's parser delivered."""

    client: str
    """The client's id; empty for the parser's own position."""
    host: str
    port: int
    file: str
    position: int
    timestamp: int
    """Milliseconds since 1970 by the server's clock; 0 if unknown."""
    gtid_set: str
    filter: str = ""
    """The client's own filter, which replaces the instance's filter."""

    @property
    def age(self) -> tuple[int, str, int]:
        """The sort key of the cursors of one instance."""
        return self.timestamp, self.file, self.position


def read_cursors(content: bytes, name: str) -> list[Cursor]:
    """Return the cursors of a file, empty if no client has one; raise UsageError for a file of another kind."""
    try:
        found = orjson.loads(content)
        if "clientDatas" in found:
            return [_of_client(one) for one in found["clientDatas"] if one.get("cursor")]
        return [_cursor(found, client="", own_filter="")]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{name} is no cursor of Canal",
            remedy="Give meta.dat, parse.dat, or the content of the ZooKeeper node "
            "/otter/canal/destinations/NAME/CLIENT/cursor",
        ) from None


def _of_client(data: dict[str, Any]) -> Cursor:
    identity = data["clientIdentity"]
    return _cursor(
        data["cursor"],
        client=str(identity.get("clientId", "")),
        own_filter=identity.get("filter") or "",
    )


def _cursor(found: dict[str, Any], *, client: str, own_filter: str) -> Cursor:
    position = found.get("postion") or found["position"]
    address = (found.get("identity") or {}).get("sourceAddress") or {}
    return Cursor(
        client=client,
        host=str(address.get("address") or address.get("hostName") or ""),
        port=int(address.get("port") or 0),
        file=str(position.get("journalName") or ""),
        position=int(position.get("position") or 0),
        timestamp=int(position.get("timestamp") or 0),
        gtid_set="".join(str(position.get("gtid") or "").split()),
        filter=own_filter,
    )


def cursor_file(conf: Path, name: str, server: Keys, given: Path | None) -> Path | None:
    """Return the file with an instance's cursors: the given file, else the clients', else the parser's."""
    if given is not None:
        if not given.is_file():
            raise UsageError(f"{given} is not a file")
        return given
    folder = Path(server.text("canal.file.data.dir", "../conf"))
    data = (conf.absolute().parent / "bin" / folder).resolve()
    candidates = [
        place / name / file for file in ("meta.dat", "parse.dat") for place in (data, conf)
    ]
    return next((one for one in candidates if one.is_file()), None)
