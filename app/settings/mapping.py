"""The mapping that a worker reads at its start: one YAML file, or a folder of Roma's JSON documents.

Invariant: it is read once, with the settings, and is correct or refused whole.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, model_validator

from connectors.errors import MappingError
from tables.mapping.documents import from_documents
from tables.mapping.mapping import Mapping
from tables.mapping.rules import Rules
from tables.mapping.yaml_form import from_yaml

_SUFFIX = ".json"
NOT_YET = (
    "ddl", "column_actions", "format",
)  # fmt: skip


class MappingSettings(BaseModel):
    """The place of the mapping; without one, each table is published under its own name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = None
    """A YAML file, or a folder with the four JSON documents, each named by its data id."""
    _mapping: Mapping | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _is_correct(self) -> Self:
        if self.file is not None:
            try:
                self._mapping = executable(read_mapping(self.file))
            except MappingError as error:
                found = "; ".join(error.faults) or error.detail
                raise ValueError(f"{self.file}: {found}") from None
        return self

    @property
    def mapping(self) -> Mapping | None:
        """Return the mapping; None if there is none."""
        return self._mapping


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


def executable(mapping: Mapping) -> Mapping:
    """Return the mapping; raise MappingError if it has rules that the worker cannot execute yet.

    A rule that is not executed would publish what it is to hide.
    """
    faults = [
        f"tables.{table.label}.{name}: the worker does not execute this rule yet; remove it"
        for table in mapping.tables
        for name in NOT_YET
        if getattr(table.rules, name) != getattr(Rules(), name)
    ]
    if faults:
        raise MappingError.listed(faults)
    return mapping


def _files(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_file() and one.name[:1] != ".")
