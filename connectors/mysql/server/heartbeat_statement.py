"""The heartbeat statement, which checks that a server is alive; it may write.

Invariant: nothing is written to a read-only server, even if the account may write: the write would be
a transaction that the server's own source lacks. A server that becomes read-only between checks is no
longer a source.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymysql.cursors import Cursor

from connectors.errors import SourceRefused
from connectors.mysql.server.facts import SourceAddress, connected

_READS = ("SELECT", "SHOW")


@dataclass(slots=True)
class HeartbeatCheck:
    """Checks one server repeatedly."""

    statement: str
    _is_standby: bool | None = None
    """Whether the server was read-only at the last check; None before the first check."""
    _was_let_in: bool = False
    _was_done: bool = False
    """Whether the connection, and the statement, have succeeded at least once."""

    def ask(self, address: SourceAddress) -> SourceRefused | None:
        """Check once, over a new connection, because a server that accepts no connection is not usable.

        Raise SourceLost if there is no answer, and SourceRefused if the server refuses something that it
        accepted before. A refusal of something that it never accepted is returned: the operator must
        correct the cause, and the server has not failed. A standby to which nothing was written has not
        shown that it accepts the statement.
        """
        is_tried = False
        try:
            with connected(address) as cursor:
                may_ask = self._may_ask(cursor, address)
                self._was_let_in = True
                if may_ask:
                    is_tried = True
                    cursor.execute(self.statement)
                    cursor.fetchall()
                    self._was_done = True
        except SourceRefused as error:
            worked_before = self._was_done if is_tried else self._was_let_in
            if worked_before:
                raise
            return error
        return None

    def _may_ask(self, cursor: Cursor, address: SourceAddress) -> bool:
        """Whether the statement may be sent to this server in its current state."""
        if self.statement.lstrip().upper().startswith(_READS):
            return True
        cursor.execute("SELECT @@GLOBAL.read_only")
        is_standby = str(cursor.fetchall()[0][0]).upper() not in ("0", "OFF")
        if is_standby and self._is_standby is False:
            raise SourceRefused("it has become read-only", source=address)
        self._is_standby = is_standby
        return not is_standby
