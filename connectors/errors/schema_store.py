"""The central schema store, a copy: no error of it stops capture."""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class StoreLost(AqueductError):
    """The central schema store cannot be reached."""

    retry = Retry.TIMED
    remedy = (
        "Capture continues; what the store lacks is written once it is reachable. "
        "Check that server and the network."
    )


class StoreRefused(AqueductError):
    """The central schema store refused the account or a statement."""

    remedy = (
        "Capture continues. Check the password in schema_history.mysql, and GRANT CREATE, SELECT, INSERT, "
        "UPDATE, DELETE on its database; no restart is needed."
    )


class StoreUnfit(AqueductError):
    """The central schema store cannot hold the history."""

    remedy = (
        "Capture continues. Choose another database, repair the tables as described in docs/schema-history.md, "
        "or raise that server's max_allowed_packet; no restart is needed."
    )
