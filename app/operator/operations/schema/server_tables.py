"""A source's present tables."""

from __future__ import annotations

from functools import partial

from app.operator.journal_access import Journal
from app.operator.source_connection import ReportUnreachable, reachable_source
from app.settings.model import Settings
from app.worker.destination.background import in_its_own_thread
from app.worker.wiring import source_address
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.schema.baseline import Baseline, read_baseline
from connectors.mysql.server.facts import SourceAddress, read_facts


async def read_source_tables(journal: Journal, report: ReportUnreachable) -> Baseline:
    """Return the tables of the source that is read, or of the first that answers."""
    source = await reachable_source(journal, await journal.latest_state(), report)
    return await in_its_own_thread(partial(read_baseline, source.address, source.facts))


async def read_first_source_catalog(settings: Settings, destination: str) -> Catalog:
    """Return the tables of a destination's first source, to apply statements to; the journal is not
    read."""
    address = source_address(settings, destination)
    baseline = await in_its_own_thread(partial(_baseline, address))
    catalog = Catalog(baseline.server, logged=False)
    for database, definition in baseline.databases.items():
        catalog.put_database(database, definition)
    for name, table in baseline.tables.items():
        catalog.put(name, table)
    return catalog


def _baseline(address: SourceAddress) -> Baseline:
    return read_baseline(address, read_facts(address))
