"""The topics of other installations among the matching ones, remembered from batch to batch.

Invariant: no record of such a topic reaches a table, and no record is omitted without an error: each topic is
logged once, and noted in the warehouse until it no longer matches or a table version names it. A topic of
which no table is known is noted, too, if it has a record that names none; then that record alone is omitted. If
the prefix of an installation begins with this installation's prefix, its topics are expected to match: they are
logged, but not noted.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame

from spark_sink.errors import ForeignTopic, TableError
from spark_sink.source.installation import Installation
from spark_sink.source.positions import Offsets
from spark_sink.text.quoting import FOREIGN
from spark_sink.warehouse.ledger import spans
from spark_sink.warehouse.notes import Notes, json_of

_log = logging.getLogger(__name__)
_VERSION: Final = 1


@dataclass(slots=True, kw_only=True)
class ForeignTopics:
    """Keeps records of other installations out of the tables."""

    installation: Installation
    notes: Notes
    note: str = FOREIGN
    """The name of the note of this sink."""
    refused: dict[str, str] = field(default_factory=dict)
    """The topics that are refused, each with the error."""
    _logged: set[str] = field(default_factory=set)
    _tableless: set[str] = field(default_factory=set)
    """The topics that are refused as no table of theirs is known."""

    def begin(self, matching: Collection[str]) -> None:
        """Take over the topics that were refused earlier and still match."""
        known = refused_topics(self.notes, self.note)
        strange = self.installation.judge(known.keys() & matching)
        self._tableless = {
            topic
            for topic in known.keys() & matching
            if topic not in strange and not self.installation.names_topic(topic)
        }
        self._keep({topic: text for topic, text in known.items() if topic in matching})

    def own(self, rows: DataFrame, moved: tuple[Offsets, Offsets] | None) -> DataFrame:
        """The envelopes of this installation. With a batch's offsets `moved`, also refuse its other topics."""
        topics = {topic for topic, _ in spans(*moved)} if moved is not None else set()
        # The topics as of now: other threads judge topics too, beside the batches.
        strange = self.installation.judge(topics)
        own = self.installation.own_sql(strange)
        if topics.isdisjoint(strange):
            return rows.where(own) if own else rows
        found = rows.where(f"NOT {own}").groupBy("topic").count().collect()
        for topic, number in sorted((row.topic, row["count"]) for row in found):
            self._refuse(topic, strange[topic], number)
        return rows.where(own)

    def raise_refused(self) -> None:
        """Raise ForeignTopic if topics are refused."""
        if self.refused:
            first, more = min(self.refused), len(self.refused) - 1
            strange = self.installation.strange
            fault = self.installation.fault(first, strange[first]) if first in strange else None
            where = fault.where if fault is not None else f"topic {first}"
            raise ForeignTopic(
                where + (f" (and {more} more)" if more else ""),
                advice=fault.advice if fault is not None else "See: python -m spark_sink status",
            )

    def refuse(self, topic: str, fault: TableError) -> None:
        """Refuse a topic with a record that names no table, as no table of the topic is known."""
        self._tableless.add(topic)
        unknown = ForeignTopic(
            f"{fault.where}, and no table of the topic is known",
            advice=f"Add {re.escape(topic)} to exclude",
        )
        if topic not in self._logged:
            self._logged.add(topic)
            _log.error("%s", unknown)
        if topic not in self.refused:
            self._keep({**self.refused, topic: str(unknown)})

    def _refuse(self, topic: str, other: str, number: int) -> None:
        fault = self.installation.fault(topic, other)
        if self.installation.is_below(other):
            if other not in self._logged:
                self._logged.add(other)
                _log.warning(
                    "topics of another installation match the prefix, and their records are omitted; to "
                    "not even read them, add %s to exclude prefix=%s",
                    other.replace(".", r"\.") + r"\..*",
                    other,
                )
            return
        if topic not in self._logged:
            self._logged.add(topic)
            _log.error("%s. Records left out: %d so far", fault, number)
        if topic not in self.refused:
            self._keep({**self.refused, topic: str(fault)})

    def _keep(self, refused: dict[str, str]) -> None:
        strange = {*self.installation.strange, *self._tableless}
        kept = {topic: text for topic, text in refused.items() if topic in strange}
        if kept != refused_topics(self.notes, self.note):
            self.notes.write(self.note, json.dumps({"version": _VERSION, "topics": kept}))
        self.refused = kept


def refused_topics(notes: Notes, note: str) -> dict[str, str]:
    """The topics that a sink refuses, each with the error."""
    # If the text is incomplete, it is written again with the next record.
    return dict(json_of(notes, note, {}).get("topics", {}))
