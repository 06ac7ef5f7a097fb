"""The schema registry, which gives Avro schemas their ids."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


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


class SchemaRefused(AqueductError):
    """The schema registry refused the schema of a table's records."""

    remedy = (
        "If it is not compatible with the subject's earlier schemas, set the subject's compatibility to NONE, "
        "or give the table another topic; then restart the destination."
    )
