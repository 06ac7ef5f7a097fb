"""The names of row topics that other programs gave them, so that their readers read on."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tables.rules.routes.topic_names import TopicRename, TopicRule
from tables.rules.table_filter import expressions


class RenameSettings(BaseModel):
    """A renaming of topics, as Kafka Connect's RegexRouter has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    regex: str = Field(min_length=1)
    replacement: str


class RowTopicSettings(BaseModel):
    """The topics of some tables."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: str = r".*\..*"
    """Expressions over ``database.table``, with commas."""
    topic: str = Field(min_length=1)
    """The name, with ``{prefix}``, ``{database}`` and ``{table}``."""
    renames: tuple[RenameSettings, ...] = ()
    shared: bool = False
    """Whether several tables may have one topic."""
    partitions: int = Field(default=0, ge=0, le=10_000)
    """The partitions over which rows are spread, the first ones of the topic; 0: all of them."""

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        expressions(self.tables)
        if faults := self.rule().faults():
            raise ValueError("; ".join(faults))
        return self

    def rule(self) -> TopicRule:
        """Return the rule for routes."""
        return TopicRule(
            tables=self.tables,
            topic=self.topic,
            renames=tuple(
                TopicRename(regex=one.regex, replacement=one.replacement) for one in self.renames
            ),
            shared=self.shared,
            partitions=self.partitions,
        )
