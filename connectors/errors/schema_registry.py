"""The schema registry, which gives Avro schemas their ids."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry
from connectors.errors.schema import WitnessesDiffer


class SchemaRegistryLost(AqueductError):
    """The schema registry did not answer, or reported a fault of its own."""

    retry = Retry.TIMED
    remedy = "Aqueduct retries by itself; check mapping.schema_registry.url and the registry."


class SchemaRegistryDenied(AqueductError):
    """The schema registry denied access."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check mapping.schema_registry.username and its password, and that the "
        "account may register schemas."
    )


class SchemaRefused(WitnessesDiffer):
    """The schema registry refused the schema of a table's records."""

    keeps_definition = True
    remedy = (
        "The table is quarantined: its events wait in the quarantine topic while all others are published. If "
        "the schema is not compatible with the subject's earlier ones, set the subject's compatibility to NONE "
        "or give the table another topic; then: python -m app schema resolve DEST TABLE --again."
    )
