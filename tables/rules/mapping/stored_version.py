"""A version of the mapping as it is stored: its text, with who stored it, when and why.

Invariant: a stored version never changes. Its digest is computed from its contents, so that another version is
recognized even if it got the same number, in a store that was emptied.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass

import orjson

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_json, from_yaml, to_json, to_yaml
from tables.rules.mapping.mapping import Mapping

MAX_STORED_BYTES = 900_000
"""The limit of a compressed version: ZooKeeper's ``jute.maxbuffer`` limits a request to 1 MiB."""
MAX_TEXT_BYTES = 64 << 20
"""The limit of a version's text; a longer stored text is damaged."""
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVersion:
    """One version of the mapping."""

    number: int
    """From 1, without gaps."""
    text: str
    """In JSON as ``to_json`` writes it; versions that were stored earlier are in YAML."""
    digest: str
    """SHA-256 of the mapping's contents, in hexadecimal."""
    by: str
    why: str
    ts_ms: int
    """The time of storing, in milliseconds since 1970 by the author's clock."""
    restores: int | None = None
    """The earlier version that a rollback stored again; None otherwise."""

    @classmethod
    def of(
        cls,
        mapping: Mapping,
        *,
        number: int,
        by: str,
        why: str,
        ts_ms: int,
        restores: int | None = None,
    ) -> StoredVersion:
        """Return the version of a mapping."""
        return cls(
            number=number,
            text=to_json(mapping),
            digest=mapping.digest,
            by=by,
            why=why,
            ts_ms=ts_ms,
            restores=restores,
        )

    def mapping(self) -> Mapping:
        """Return the mapping; raise MappingError if this program cannot read it, or reads another content."""
        found = from_json(self.text) if self.text.startswith("{") else from_yaml(self.text)
        if found.digest != self.digest:
            raise MappingError(
                f"version {self.number} was stored with the digest {self.digest}, and its text has "
                f"{found.digest}: it was changed, or a later Aqueduct stored it; update this one, or store "
                "the mapping again"
            )
        return found

    def to_yaml(self) -> str:
        """Return the mapping as a text in YAML; raise MappingError as ``mapping`` does."""
        return to_yaml(self.mapping())

    def to_bytes(self) -> bytes:
        """Return it as stored; raise MappingError if it is too large for a node of ZooKeeper."""
        stored = zlib.compress(orjson.dumps({"format": _FORMAT, **asdict(self)}), 9)
        if len(stored) > MAX_STORED_BYTES or len(self.text.encode()) > MAX_TEXT_BYTES:
            raise MappingError(
                f"the mapping has {len(self.text.encode())} bytes, {len(stored)} when compressed; at most "
                f"{MAX_TEXT_BYTES} and {MAX_STORED_BYTES} can be stored in ZooKeeper. Replace names by "
                "patterns, or use mapping.file"
            )
        return stored

    @classmethod
    def from_bytes(cls, number: int, stored: bytes) -> StoredVersion:
        """Read what ``to_bytes`` returned; raise MappingError."""
        try:
            inflating = zlib.decompressobj()
            value = orjson.loads(inflating.decompress(stored, 2 * MAX_TEXT_BYTES))
            if value.pop("format") != _FORMAT:
                raise MappingError(
                    f"version {number} in ZooKeeper is of a later Aqueduct; update this one"
                )
            found = cls(**value)
        except (zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise MappingError(
                f"version {number} in ZooKeeper cannot be read ({type(error).__name__}); "
                "store the mapping again with `python -m app mapping set`"
            ) from None
        if found.number != number:
            raise MappingError(f"the node of version {number} in ZooKeeper holds {found.number}")
        return found
