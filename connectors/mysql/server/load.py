"""The load of a server, for work that waits while others need it.

Invariant: one short query over a connection that is kept; it needs no privilege.
"""

from __future__ import annotations

from typing import Any

import pymysql

from connectors.errors import SourceLost
from connectors.mysql.server.facts import SourceAddress, connection_to, translated


class ServerLoad:
    """The number of sessions that a server executes statements of; used by one thread at a time."""

    def __init__(self, address: SourceAddress) -> None:
        self._address = address
        self._connection: Any = None

    def threads_running(self) -> int:
        """Return it, the session that asks included; raise SourceLost or SourceRefused."""
        try:
            if self._connection is None:
                self._connection = connection_to(self._address)
            with self._connection.cursor() as cursor:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_running'")
                row = cursor.fetchone()
        except pymysql.MySQLError as error:
            self.close()
            raise translated(error, self._address) from error
        except OSError as error:
            self.close()
            raise SourceLost(str(error), source=self._address) from error
        return int(row[1])

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection._force_close()
            self._connection = None
