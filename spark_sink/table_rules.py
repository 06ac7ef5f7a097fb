"""What is set for single tables: rules that each apply to the tables that a pattern matches.

Invariant: each setting of a table is that of the first rule that matches it and states the setting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spark_sink.warehouse.layout import Layout

Column = Annotated[str, Field(min_length=1)]


class TableRule(BaseModel):
    """Settings of the tables whose whole name, `database.table`, matches a regular expression."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    match: str
    deletes: Literal["soft", "hard"] | None = None
    history: bool | None = None
    partition_by: tuple[Column, ...] | None = None
    cluster_by: Annotated[tuple[Column, ...], Field(max_length=4)] | None = None

    @field_validator("match")
    @classmethod
    def _regular_expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as fault:
            raise ValueError(f"no regular expression: {fault}") from None
        return value

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if self.partition_by and self.cluster_by:
            raise ValueError("partition_by and cluster_by exclude each other: choose one")
        return self


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules, in order."""

    rules: Sequence[TableRule] = ()

    @property
    def any_hard(self) -> bool:
        """Whether deleted rows are removed from any table."""
        return any(rule.deletes == "hard" for rule in self.rules)

    def has_hard_deletes(self, name: tuple[str, str]) -> bool:
        """Whether deleted rows are removed from the table."""
        return self._of(name, "deletes") == "hard"

    def has_history(self, name: tuple[str, str]) -> bool:
        """Whether all changes of the table are kept in a history."""
        return bool(self._of(name, "history"))

    def layout(self, name: tuple[str, str]) -> Layout:
        """How the table's rows are divided into files; a rule that states one layout excludes the other."""
        for rule in self._matching(name):
            if rule.partition_by is not None or rule.cluster_by is not None:
                return Layout(rule.partition_by or (), rule.cluster_by or ())
        return Layout()

    def _of(self, name: tuple[str, str], setting: str) -> object:
        found = (getattr(rule, setting) for rule in self._matching(name))
        return next((value for value in found if value is not None), None)

    def _matching(self, name: tuple[str, str]) -> list[TableRule]:
        whole = ".".join(name)
        return [rule for rule in self.rules if re.fullmatch(rule.match, whole)]


NO_RULES: Final = TableRules()
