"""Logical tables as they were last published."""

from __future__ import annotations

import logging

from app.settings.model import Settings
from app.worker.wiring import is_mapped, kafka_client, topic_plans
from connectors.errors import UsageError
from connectors.kafka.reading.partition_reader import read_to_end
from connectors.kafka.topics.topics import Topics
from connectors.mysql.ddl.definition import TableName
from tables.history.logical_schemas.published import PublishedSchema, key_name

log = logging.getLogger(__name__)


async def published_tables(settings: Settings) -> dict[TableName, PublishedSchema]:
    """Return the last record of each logical table; none before the first was published.

    A record that is no logical schema is skipped, as the publication does; the log states it. Raises UsageError
    if the settings have no mapping.
    """
    if not is_mapped(settings):
        raise UsageError("the settings have no mapping, so there are no logical tables")
    options, plan = kafka_client(settings).options(), topic_plans(settings).logical_schemas()
    if not await Topics(options).has(plan):
        return {}
    found: dict[TableName, PublishedSchema] = {}
    for record in await read_to_end(options, plan.name, 0):
        try:
            if record.value:
                one = PublishedSchema.from_record(record.value)
                found[one.name] = one
            else:
                found.pop(key_name(record.key), None)
        except ValueError as error:
            log.warning("offset %d of %s is skipped: %s", record.offset, plan.name, error)
    return found


async def published_table(settings: Settings, name: TableName) -> PublishedSchema:
    """Return the last record of one; raise UsageError if there is no such logical table."""
    found = (await published_tables(settings)).get(name)
    if found is None:
        raise UsageError(
            f"{'.'.join(name)} is no logical table with published rows; `python -m app shards show` lists them"
        )
    return found
