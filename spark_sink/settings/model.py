"""The sink's settings: one YAML file and `AQUEDUCT_SINK_*`, read once and checked whole.

Invariant: every fault is reported, all in one message, and an unknown key is a fault.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)
from yaml import YAMLError

from spark_sink.errors import BadSettings
from spark_sink.settings.required_conf import required
from spark_sink.text import secrets
from spark_sink.text.quoting import CHECKPOINT, of_sink

OnDrop = Literal["rename", "keep", "truncate", "drop"]
OnRename = Literal["move", "keep"]

_ENV_PREFIX = "AQUEDUCT_SINK_"
_JARS = Path(__file__).parents[2] / ".cache" / "jars"
TABLES_WITH_METRICS = 1000
_HADOOP: Final = "hadoop"
_PASSWORDS: Final = frozenset({"password", "password_file"})
_OURS = frozenset({"subscribe", "subscribepattern", "assign", "startingoffsets", "failondataloss"})


def _compiles(value: str) -> str:
    try:
        re.compile(value)
    except re.error as fault:
        raise ValueError(f"no regular expression: {fault}") from None
    return value


def _from_file(value: Any) -> Any:
    """The content of the file that `{file: PATH}` names, as a secret; any other value as it is."""
    if not isinstance(value, dict) or list(value) != ["file"]:
        return value
    try:
        content = Path(str(value["file"])).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8"
        raise ValueError(f"file {value['file']}: {reason}") from None
    secrets.keep([content])
    return content


_Options = dict[str, Annotated[str, BeforeValidator(_from_file)]]


def _no_user(value: str) -> str:
    if "@" in value.split("?")[0]:
        raise ValueError("an address is without user and password, since messages have it")
    return value


class Metrics(BaseModel):
    """The endpoint that Prometheus reads; port 0 disables it. Up to `tables` tables have their own labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bind: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8084
    tables: Annotated[int, Field(ge=0)] = TABLES_WITH_METRICS


_DATABASES: Final = r"^[a-z0-9_]*(\{database\}[a-z0-9_]*)?$"
"""The pattern of a database's name in the metastore."""


class Maintenance(BaseModel):
    """When tables are compacted, and how long unused files and markers of deleted rows are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Annotated[int, Field(ge=0)] = 200
    retention_hours: Annotated[float, Field(gt=0, le=24 * 365)] = 1
    purge_deleted_hours: Annotated[float, Field(ge=0)] = 168
    hold_seconds: Annotated[float, Field(ge=0, le=600)] = 10
    """How long all batches may wait at a time for maintenance that lost to their commits; 0: never."""

    @property
    def retention_seconds(self) -> int:
        """How long unused files and log entries are kept, in seconds."""
        return max(1, round(self.retention_hours * 3600))


_Column = Annotated[str, Field(min_length=1)]


class TableRule(BaseModel):
    """Settings of the tables whose whole name, `database.table`, matches a regular expression."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: str
    deletes: Literal["soft", "hard"] | None = None
    history: bool | None = None
    partition_by: tuple[_Column, ...] | None = None
    cluster_by: Annotated[tuple[_Column, ...], Field(max_length=4)] | None = None
    deletion_vectors: bool | None = None

    @field_validator("match")
    @classmethod
    def _regular_expression(cls, value: str) -> str:
        return _compiles(value)

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if self.partition_by and self.cluster_by:
            raise ValueError("partition_by and cluster_by exclude each other: choose one")
        return self


class Metastore(BaseModel):
    """The Hive metastore in which the tables are registered; without `uri`, they are not registered."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: Annotated[str, Field(pattern=r"^(thrift://[^\s,]+(,thrift://[^\s,]+)*)?$")] = ""
    databases: Annotated[str, Field(pattern=_DATABASES)] = "{database}"
    views: Annotated[str, Field(pattern=f"{_DATABASES}|^$")] = "{database}_current"
    options: _Options = {}

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.views == self.databases:
            raise ValueError("views and databases must differ: a view has the name of its table")
        return self


class LoadServer(BaseModel):
    """A MySQL server that rows are loaded from; not set while `server` is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: Annotated[str, Field(pattern=r"^([^\s/?&]+:[0-9]{1,5})?$")] = ""
    user: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    options: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z]+$")], Annotated[str, BeforeValidator(_from_file)]
    ] = {}

    @field_validator("options")
    @classmethod
    def _not_ours(cls, value: dict[str, str]) -> dict[str, str]:
        taken = sorted({"sessionVariables", "permitMysqlScheme", "user", "password"} & value.keys())
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set: exactness depends on it")
        return value

    @property
    def secret(self) -> str:
        """The password. Raise BadSettings if its file cannot be read."""
        if self.password_file is None:
            found = self.password.get_secret_value()
            secrets.keep([found])
            return found
        try:
            found = self.password_file.read_text(encoding="utf-8").rstrip("\n")
        except OSError as fault:
            raise BadSettings(
                f"load.password_file: {self.password_file}: {fault.strerror}"
            ) from fault
        secrets.keep([found])
        return found


class Load(LoadServer):
    """The servers that rows are loaded from, and limits that spare them."""

    connections: Annotated[int, Field(ge=1, le=1000)] = 4
    rows_per_range: Annotated[int, Field(ge=1, le=100_000_000)] = 500_000
    max_threads_running: Annotated[int, Field(ge=0)] = 25
    destinations: dict[str, LoadServer] = {}
    """Settings of single destinations that differ from those above."""

    @property
    def is_set(self) -> bool:
        """Whether any server is named."""
        return any(one.server for one in (self, *self.destinations.values()))

    def of(self, destination: str) -> LoadServer:
        """The server of a destination."""
        own = self.destinations.get(destination, LoadServer())
        given = {name: getattr(own, name) for name in own.model_fields_set}
        if given.keys() & _PASSWORDS:
            given = {"password": SecretStr(""), "password_file": None, **given}
        common = {name: getattr(self, name) for name in LoadServer.model_fields}
        return LoadServer(**{**common, **given})


class Log(BaseModel):
    """What is logged. A `file` gets the details (tracebacks); beside it, `<file>.spark` is Spark's own log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Literal["debug", "info", "warning", "error"] = "info"
    file: Path | None = None


_OFFSETS_OF_A_MEBIBYTE: Final = 150
"""A batch of 1 KB records, held twice (parsed and folded), then uses a third of the memory."""
_FEWEST_OFFSETS: Final = 20_000


def limit_for(mebibytes: int) -> int:
    """Return the most offsets that a batch may have with this much memory."""
    return max(_FEWEST_OFFSETS, mebibytes * _OFFSETS_OF_A_MEBIBYTE)


class Settings(BaseSettings):
    """All settings; docs/sink/settings.md explains each."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=_ENV_PREFIX, env_nested_delimiter="__"
    )

    prefix: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,100}$")]
    bootstrap_servers: Annotated[str, Field(min_length=1), AfterValidator(_no_user)]
    warehouse: Annotated[str, Field(min_length=1)]
    format: Literal["delta", "iceberg"] = "delta"
    catalog: _Options = {}
    checkpoint: str = ""
    name: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9_-]{0,39})?$")] = ""
    mode: Literal["continuous", "available-now"] = "continuous"
    trigger_interval: Annotated[float, Field(ge=0, le=3600)] = 0.5
    fresh: bool = True
    merge_interval: Annotated[float, Field(ge=0, le=3600)] = 120
    on_drop: OnDrop = "rename"
    on_rename: OnRename = "move"
    tables: tuple[TableRule, ...] = ()
    max_offsets_per_trigger: Annotated[int, Field(ge=0)] = 0
    max_rate: Annotated[float, Field(ge=0)] = 0
    claim_checks: str = ""
    unusable_limit: Annotated[int, Field(ge=0, le=10_000)] = 0
    include: str = ""
    exclude: str = ""
    kafka_options: _Options = {}
    spark_options: _Options = {}
    master: str = "local[2]"
    driver_memory: Annotated[str, Field(pattern=r"^[0-9]+[mg]$")] = "1g"
    ui_port: Annotated[int, Field(ge=0, le=65535)] = 0
    jars: Path = Path(os.environ.get("AQUEDUCT_SPARK_JARS") or _JARS / "spark")
    iceberg_jars: Path = Path(os.environ.get("AQUEDUCT_ICEBERG_JARS") or _JARS / "iceberg")
    s3_jars: Path = Path(os.environ.get("AQUEDUCT_S3_JARS") or _JARS / "s3")
    jdbc_jars: Path = Path(os.environ.get("AQUEDUCT_JDBC_JARS") or _JARS / "jdbc")
    load: Load = Field(default_factory=Load)
    maintenance: Maintenance = Field(default_factory=Maintenance)
    metrics: Metrics = Field(default_factory=Metrics)
    metastore: Metastore = Field(default_factory=Metastore)
    log: Log = Field(default_factory=Log)

    @field_validator("warehouse", "checkpoint", "claim_checks")
    @classmethod
    def _without_credentials(cls, value: str) -> str:
        if re.match(r"^[a-z][a-z0-9+.-]*://[^/@]*:[^/@]*@", value):
            raise ValueError(
                "an address is without credentials, since messages have it: set them in spark_options, "
                "by {file: PATH}"
            )
        return value

    @field_validator("warehouse", "checkpoint")
    @classmethod
    def _absolute(cls, value: str) -> str:
        """Make a local path (one without a scheme) absolute, so that Spark does not resolve it itself."""
        if not value or re.match(r"^[a-z][a-z0-9+.-]*:", value):
            return value.rstrip("/")
        return str(Path(value).absolute())

    @field_validator("include", "exclude")
    @classmethod
    def _regular_expression(cls, value: str) -> str:
        return _compiles(value)

    @field_validator("kafka_options")
    @classmethod
    def _not_ours(cls, value: dict[str, str]) -> dict[str, str]:
        taken = sorted(key for key in value if key.lower() in _OURS or "isolation" in key)
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set: exactness depends on it")
        return value

    @field_validator("spark_options")
    @classmethod
    def _spark_s(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        strange = sorted(key for key in value if not key.startswith("spark."))
        needed = required(info.data.get("format", "delta"))
        fixed = sorted(key for key in value if key in needed)
        faults = []
        if strange:
            faults.append(f"{', '.join(strange)}: a setting of Spark begins with spark.")
        if fixed:
            faults.append(f"{', '.join(fixed)} cannot be set: the sink depends on its own value")
        if "spark.jars" in value:
            faults.append(
                "spark.jars cannot be set, as it would replace the sink's own: put jars into the folder of "
                "the setting jars (with spark-submit: name them after --jars), or set spark.jars.packages"
            )
        if faults:
            raise ValueError("; ".join(faults))
        return value

    @field_validator("catalog")
    @classmethod
    def _of_one_catalog(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        if value and info.data.get("format") == "delta":
            raise ValueError("only with format: iceberg")
        if value and not {"type", "catalog-impl"}.intersection(value):
            raise ValueError(
                "type or catalog-impl is missing: type is hive, rest, glue, jdbc or nessie"
            )
        if value.get("type") == "jdbc" and "name" not in value:
            raise ValueError("name is missing: a jdbc catalog stores its name with each table")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", value.get("name", "name")):
            raise ValueError("name is not of the form [a-z][a-z0-9_]*, up to 63 characters")
        if "cache-enabled" in value:
            raise ValueError("cache-enabled cannot be set: exactness depends on it")
        if value.get("type") == _HADOOP and "warehouse" in value:
            raise ValueError("a hadoop catalog is in the folder of the setting warehouse")
        return value

    @property
    def batch_limit(self) -> int:
        """The most offsets that a batch may have if the sink's own driver holds the batch."""
        if self.max_offsets_per_trigger:
            return self.max_offsets_per_trigger
        return limit_for(self.mebibytes)

    @property
    def mebibytes(self) -> int:
        """The memory of the sink's own driver, in MiB."""
        return int(self.driver_memory[:-1]) * (1024 if self.driver_memory.endswith("g") else 1)

    @property
    def uses_buckets(self) -> bool:
        """Whether a setting names a bucket or configures the access to buckets."""
        places = (self.warehouse, self.checkpoint, self.claim_checks, *self.catalog.values())
        return any(place.startswith(("s3:", "s3a:")) for place in places) or any(
            key.startswith("spark.hadoop.fs.s3a.") for key in self.spark_options
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.ui_port and not self.master.startswith("local"):
            raise ValueError(
                "ui_port needs a local master, as it binds to 127.0.0.1: set spark.ui.enabled and "
                "spark.ui.port in spark_options"
            )
        kind = self.catalog.get("type") or self.catalog.get("catalog-impl", _HADOOP)
        in_folder = self.format == "iceberg" and kind == _HADOOP
        if self.name and in_folder and not self.warehouse.startswith("hdfs:"):
            raise ValueError(
                "name is for several sinks, which an Iceberg catalog of type hadoop is not safe for, except "
                "on HDFS: set catalog, or let one sink fill this warehouse"
            )
        if self.format == "iceberg" and any(
            one.partition_by or one.cluster_by or one.deletion_vectors is not None
            for one in self.tables
        ):
            raise ValueError(
                "tables: partition_by, cluster_by and deletion_vectors need format: delta"
            )
        if self.metastore.uri and self.format == "iceberg":
            raise ValueError(
                "metastore.uri registers tables in Delta: with format: iceberg, set catalog (type: hive, uri: "
                "thrift://…) instead, whose tables have names by themselves"
            )
        for options in (
            self.kafka_options,
            self.spark_options,
            self.catalog,
            self.metastore.options,
            *(server.options for server in (self.load, *self.load.destinations.values())),
        ):
            for key, value in options.items():
                secrets.keep([value] if secrets.is_secret(key) else secrets.passwords(value))
        if not self.checkpoint:
            # The model is frozen, but this default depends on other fields.
            object.__setattr__(
                self, "checkpoint", f"{self.warehouse}/{of_sink(CHECKPOINT, self.name)}"
            )
        return self


def read(path: Path | None, **overrides: Any) -> Settings:
    """Return the settings of the environment and, if given, of the file `path`; `overrides` win over both."""
    if path is not None and not path.is_file():
        raise BadSettings(f"{path} is not a file")

    class FromFile(Settings):
        """Adds the file, over which the environment wins."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            file = YamlConfigSettingsSource(settings_cls, yaml_file=path)
            return init_settings, env_settings, file

    where = str(path) if path else "the environment"
    try:
        _refuse_unknown_environment()
        return FromFile(**overrides)
    except ValidationError as fault:
        faults = "; ".join(
            f"{'.'.join(map(str, error['loc'])) or 'settings'}: {_what(error)}"
            for error in fault.errors()
        )
        raise BadSettings(f"{where}: {faults}") from None
    except (YAMLError, ValueError, OSError) as fault:
        raise BadSettings(f"{where}: {' '.join(str(fault).split())}") from None


def _what(error: Mapping[str, Any]) -> str:
    """The fault in words; for an unknown setting, with the most similar name among all settings."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    known = sorted({name for part in _models(Settings) for name in part.model_fields})
    near = get_close_matches(str(error["loc"][-1]).casefold(), known, n=1)
    return f"no such setting; the nearest is {near[0]}" if near else "no such setting"


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a type, also as the type of a list's values, and the models of their own settings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from _models(info.annotation)
    for one in get_args(annotation):
        yield from _models(one)


def _refuse_unknown_environment() -> None:
    known = {f"{_ENV_PREFIX}{name}".upper() for name in Settings.model_fields}
    unknown = [
        name
        for name in os.environ
        if name.upper().startswith(_ENV_PREFIX) and name.upper().split("__")[0] not in known
    ]
    if unknown:
        raise ValueError(f"unknown environment variables {', '.join(sorted(unknown))}")
