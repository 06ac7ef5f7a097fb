"""The heartbeat statement, which checks that a server is alive; it may write.

Invariant: a read-only server is never written to, even by an account that may: that would be a
transaction that its source lacks. A server that becomes read-only during the check is no longer a
source.
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
    """Whether it was read-only at the last check; None before."""
    _was_let_in: bool = False
    _was_done: bool = False
    """What succeeded at least once: the connection; the statement."""

    def ask(self, address: SourceAddress) -> SourceRefused | None:
        """Check once, over a new connection: a server that accepts none is not usable either.

        Raise SourceLost if there is no answer, and SourceRefused if the server no longer does what
        it did before. A refusal of something it never did is returned: the operator must fix that,
        and it does not mean that the server has failed. A standby that was not written to has not
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
