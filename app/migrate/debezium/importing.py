"""The import of a Debezium connector: settings, mapping and report."""

from __future__ import annotations

from pathlib import Path

from app.migrate.debezium.column_lists import convert_columns
from app.migrate.debezium.connector import Connector, provided, read_connector, with_worker
from app.migrate.debezium.destination import convert_destination, convert_offset, convert_snapshots
from app.migrate.debezium.known_keys import KNOWN
from app.migrate.debezium.offsets import read_offset
from app.migrate.debezium.records import convert_records
from app.migrate.debezium.tables import convert_tables
from app.migrate.debezium.worker import convert_worker
from app.migrate.draft import Draft
from app.migrate.findings import Imported
from app.migrate.names import destination_name

_SETTINGS = ("Settings of Aqueduct, imported from Debezium. docs/settings.md explains each.",)
_MAPPING = ("A mapping of Aqueduct, imported from Debezium: keys and columns of tables.",)
_PROVIDED = "comes from a config provider of Kafka Connect; set it by a file or a variable"


def import_debezium(
    file: Path, *, offsets: Path | None, prefix: str, worker: Path | None = None
) -> Imported:
    """Return what a connector means to Aqueduct; raise UsageError for a file that is none."""
    connector = read_connector(file)
    if worker is not None:
        connector = with_worker(connector, worker)
    draft = Draft()
    convert_worker(draft, connector, prefix=prefix)
    name = destination_name(connector.name)
    if name != connector.name:
        draft.note(connector.name, f"its destination is named {name}")
    path = ("destinations", name)
    convert_destination(draft, path, connector)
    convert_tables(draft, (*path, "filter"), connector)
    convert_columns(draft, connector)
    convert_records(draft, path, connector)
    if offsets is not None:
        convert_offset(draft, path, read_offset(offsets), offsets)
    convert_snapshots(draft, path, connector, resumes=offsets is not None)
    _account(draft, connector)
    return draft.result(settings_head=_SETTINGS, mapping_head=_MAPPING)


def _account(draft: Draft, connector: Connector) -> None:
    for entry in connector.entries:
        if provided(entry) and not draft.is_accounted(entry):
            draft.by_hand(entry, _PROVIDED)
    draft.account(((entry.key, entry) for entry in connector.entries), KNOWN)
