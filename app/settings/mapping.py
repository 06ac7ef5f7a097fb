"""The mapping: one YAML file or a folder of Roma's JSON documents, or versions in ZooKeeper.

Invariant: a file is read once, with the settings, and is correct or refused whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from app.settings.connect_form import ConnectForm
from connectors.errors import MappingError
from connectors.mysql.types.registry import Modes
from connectors.secret import FileSecret
from connectors.store.registry import RegistryAccess
from tables.rules.mapping.forms import from_documents, from_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.rules import AVRO
from tables.rules.masking import MaskingKeys, masks
from wire.topics import MAX_TOPIC_LENGTH


class SchemaRegistrySettings(BaseModel):
    """The connection to a registry that speaks Confluent's protocol; without ``url``, no registry is used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(default="", pattern=r"^(https?://[^/@\s?#]+(/[^@\s?#]*)?)?$")
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    ssl_cafile: Path | None = None
    """Certificates of the authorities that are trusted, in PEM; without it, the system's."""

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        for name in ("password_file", "ssl_cafile"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise ValueError(f"{name} {path} is not a file")
        return self

    def access(self) -> RegistryAccess:
        """Return the connection, for decoders."""
        password = self.password.get_secret_value()
        if self.password_file is not None:
            password = FileSecret(self.password_file)
        return RegistryAccess(
            url=self.url,
            username=self.username,
            password=password,
            ca_file=str(self.ssl_cafile or ""),
        )


class ConnectSettings(BaseModel):
    """A connector's modes for values, named as in Debezium, and the schemas of its converter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decimal: Literal["precise", "string", "double"] = "precise"
    """``decimal.handling.mode``."""
    decimal_format: Literal["base64", "numeric"] = "base64"
    """``value.converter.decimal.format``."""
    time: Literal[
        "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
    ] = "adaptive_time_microseconds"
    """``time.precision.mode``."""
    bigint_unsigned: Literal["long", "precise"] = "long"
    """``bigint.unsigned.handling.mode``."""
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    """``binary.handling.mode``."""
    adjust_years: bool = True
    """``enable.time.adjuster``."""
    source_name: str = ""
    """``topic.prefix``, which is ``source.name`` in records; if empty, the destination's name."""
    key_schemas: bool = False
    """``key.converter.schemas.enable``."""
    value_schemas: bool = False
    """``value.converter.schemas.enable``."""
    tombstones: bool = True
    """``tombstones.on.delete``."""

    unwrap: bool = False
    """Whether records are the row alone, as with the transform ExtractNewRecordState."""

    def stated(self) -> dict[str, Any]:
        """Return what determines the form of keys and rows, as the versions of tables state it."""
        return self.model_dump(exclude={"source_name", "tombstones"})

    def form(self) -> ConnectForm:
        """Return the form for the pipeline."""
        return ConnectForm(
            modes=Modes(
                decimal=self.decimal,
                time=self.time,
                bigint_unsigned=self.bigint_unsigned,
                binary=self.binary,
                decimal_format=self.decimal_format,
                adjust_years=self.adjust_years,
            ),
            name=self.source_name,
            key_schemas=self.key_schemas,
            value_schemas=self.value_schemas,
            tombstones=self.tombstones,
            unwrap=self.unwrap,
        )


_SUFFIX = ".json"


class MappingSettings(BaseModel):
    """The location of the mapping; without a mapping, each table is published under its own name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: Literal["file", "zookeeper"] = "file"
    """The mapping's store: ``file``, or versions in ZooKeeper, which take effect without a restart."""
    file: Path | None = None
    """A YAML file, or a folder with the four JSON documents, each named by its data id."""
    key_file: Path | None = None
    """HMAC keys, one ``id: base64`` on each line; the first key also seals the raw rows of masked tables."""
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
        """Return the keys of ``key_file``; empty without a file."""
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
    """Return the faults of topics whose names are too long for Kafka."""
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
    """Return the keys of a file; raise MappingError with all faults, but without any of the file's content."""
    try:
        return MaskingKeys.from_text(path.read_text())
    except OSError as error:
        raise MappingError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MappingError("it is not UTF-8") from None


def with_keys(mapping: Mapping, keys: MaskingKeys) -> Mapping:
    """Return the mapping; raise MappingError if its rules need keys that are missing.

    Every mask needs a key: data that cannot be masked yet, such as a quarantined row, is sealed.
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
            if keys and one.kind.is_keyed and one.argument not in keys.ids
        )
    if faults:
        raise MappingError.listed(faults)
    return mapping


def with_registry(mapping: Mapping, url: str) -> Mapping:
    """Return the mapping; raise MappingError if it requires Avro and there is no schema registry."""
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
