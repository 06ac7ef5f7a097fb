"""What a step of the schema history means, with the shadows of online changes seen for what they are.

The law: it depends on the history alone, so a step means the same when it is read again.
"""

from __future__ import annotations

from connectors.mysql.ddl.cut_over import Logical, logical
from connectors.mysql.ddl.definition import Table, TableChange, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history import SchemaHistory
from tables.schema_record import SchemaRecord


def meaning(
    record: SchemaRecord, history: SchemaHistory, rules: ShadowRules
) -> tuple[Logical, ...]:
    """What the changes of the history's newest record mean."""
    return logical(
        record.changes,
        rules,
        known=history.now().tables(),
        before=lambda name: last_definition(history, name, before=record.number),
    )


def last_definition(history: SchemaHistory, name: TableName, *, before: int) -> Table | None:
    """The last definition that a name had before a step, also where it had gone by then.

    None where the history's records, as far as they are held, do not tell.
    """
    for record in reversed(history.records):
        if record.number >= before:
            continue
        for change in reversed(record.changes):
            if isinstance(change, TableChange) and change.name == name:
                return change.old if change.new is None else change.new
    return None
