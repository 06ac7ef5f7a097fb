"""The statement that asks a server whether it lives; it may write.

The law: nothing is written to a server that is read-only, even by an account that may: it would be a
transaction that its source lacks. One that becomes read-only while it is asked is no source any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymysql.cursors import Cursor

from connectors.errors import SourceRefused
from connectors.mysql.server.facts import SourceAddress, connected

_READS = ("SELECT", "SHOW")


@dataclass(slots=True)
class Beat:
    """Asks one server, again and again."""

    statement: str
    _is_standby: bool | None = None
    """Whether it was read-only when it was last asked; None before."""
    _was_let_in: bool = False
    _was_done: bool = False
    """What the server did for us at least once: took a connection; executed the statement."""

    def ask(self, address: SourceAddress) -> SourceRefused | None:
        """Once, over a connection of its own: a server that takes no new ones is no good either.

        Raises SourceLost where there is no answer, and SourceRefused where the server no longer does what it
        did before. What it refuses and never did is returned: that is to be mended, and says nothing of the
        server. A standby that was not written to has not shown that it takes the statement.
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
        """Whether the statement may go to this server, as it is now."""
        if self.statement.lstrip().upper().startswith(_READS):
            return True
        cursor.execute("SELECT @@GLOBAL.read_only")
        is_standby = str(cursor.fetchall()[0][0]).upper() not in ("0", "OFF")
        if is_standby and self._is_standby is False:
            raise SourceRefused("it has become read-only", source=address)
        self._is_standby = is_standby
        return not is_standby
