"""The mapping: one YAML file or a folder of Roma's JSON documents, or versions in ZooKeeper.

Invariant: a file is read once, with the settings, and is correct or refused whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, model_validator

from app.settings.schema_registry import SchemaRegistrySettings
from connectors.errors import MappingError
from tables.rules.mapping.documents import from_documents
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.rules import AVRO
from tables.rules.mapping.yaml_form import from_yaml
from tables.rules.masking.keys import MaskingKeys
from tables.rules.masking.rules import masks
from wire.topics import MAX_TOPIC_LENGTH

_SUFFIX = ".json"


class MappingSettings(BaseModel):
    """The mapping's file or folder; without one, each table is published under its own name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: Literal["file", "zookeeper"] = "file"
    """Where the mapping is: in ``file``, or as versions in ZooKeeper, followed without a restart."""
    file: Path | None = None
    """A YAML file, or a folder with the four JSON documents, each named by its data id."""
    key_file: Path | None = None
    """Keys of HMACs, one ``id: base64`` a line; the first also seals the raw rows of masked tables."""
    schema_registry: SchemaRegistrySettings = SchemaRegistrySettings()
    """The registry of the schemas of records in Avro."""
    _mapping: Mapping | None = PrivateAttr(default=None)
    _keys: MaskingKeys = PrivateAttr(default_factory=MaskingKeys)

    @model_validator(mode="after")
    def _is_correct(self) -> Self:
        if self.store == "zookeeper" and self.file is not None:
            raise ValueError(
                "store is zookeeper, so file is not read: store its mapping with "
                "`python -m app mapping set`, and remove file"
            )
        part = self.key_file
        try:
            if self.key_file is not None:
                self._keys = read_keys(self.key_file)
            part = self.file
            if self.file is not None:
                self._mapping = with_keys(read_mapping(self.file), self._keys)
                with_registry(self._mapping, self.schema_registry.url)
        except MappingError as error:
            found = "; ".join(error.faults) or error.detail
            raise ValueError(f"{part}: {found}") from None
        return self

    @property
    def keys(self) -> MaskingKeys:
        """Return the keys of ``key_file``; none if there is no file."""
        return self._keys

    @property
    def mapping(self) -> Mapping | None:
        """Return the mapping; None if there is none."""
        return self._mapping

    def with_mapping(self, mapping: Mapping | None) -> Self:
        """Return these settings with a mapping that was read from ZooKeeper."""
        found = self.model_copy()
        found._mapping = mapping
        return found

    def usable(self, mapping: Mapping, prefix: str) -> Mapping:
        """Return a mapping; raise MappingError if a worker with these settings cannot publish by it."""
        with_keys(mapping, self._keys)
        with_registry(mapping, self.schema_registry.url)
        faults = long_topics(mapping, prefix)
        if faults:
            raise MappingError.listed(faults)
        return mapping


def long_topics(mapping: Mapping, prefix: str) -> list[str]:
    """Return the faults of topics that Kafka cannot have."""
    return [
        f"topic {topic!r} with the prefix has more than {MAX_TOPIC_LENGTH} characters"
        for topic in mapping.topics
        if len(f"{prefix}.{topic}") > MAX_TOPIC_LENGTH
    ]


def read_mapping(path: Path) -> Mapping:
    """Return the mapping of a file or folder; raise MappingError with all faults."""
    try:
        if path.is_dir():
            return from_documents(
                {one.name.removesuffix(_SUFFIX): one.read_text() for one in _files(path)}
            )
        return from_yaml(path.read_text())
    except OSError as error:
        raise MappingError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MappingError(f"{path} is not UTF-8") from None


def read_keys(path: Path) -> MaskingKeys:
    """Return the keys of a file; raise MappingError with all faults, and nothing of the file's content."""
    try:
        return MaskingKeys.from_text(path.read_text())
    except OSError as error:
        raise MappingError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MappingError("it is not UTF-8") from None


def with_keys(mapping: Mapping, keys: MaskingKeys) -> Mapping:
    """Return the mapping; raise MappingError if its rules need keys that there are not.

    Every mask needs one: what cannot be masked yet, such as a quarantined row, is sealed.
    """
    faults = []
    for table in mapping.tables:
        actions = table.rules.column_actions
        where = f"tables.{table.label}.column_actions"
        if masks(actions) and not keys:
            faults.append(f"{where}: masked tables need keys; name a file in mapping.key_file")
        faults += (
            f"{where}.{one.column}: mapping.key_file has no key {one.argument!r}"
            for one in actions
            if keys and one.action == "hmac" and one.argument not in keys.ids
        )
    if faults:
        raise MappingError.listed(faults)
    return mapping


def with_registry(mapping: Mapping, url: str) -> Mapping:
    """Return the mapping; raise MappingError if records are to be in Avro and there is no schema registry."""
    stated = {f"databases.{one.name}": one.format for one in mapping.databases}
    stated |= {f"tables.{one.label}": one.rules.format for one in mapping.tables}
    faults = [
        f"{where}.format: avro needs a schema registry; name it in mapping.schema_registry.url"
        for where, name in stated.items()
        if name == AVRO and not url
    ]
    if faults:
        raise MappingError.listed(faults)
    return mapping


def _files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file() and one.name[:1] != ".")
