"""The statement that asks a server whether it lives; it may write.

The law: nothing is written to a server that is read-only, even by an account that may: it would be a
transaction that its source lacks. One that becomes read-only while it is asked is no source any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.errors import SourceRefused
from connectors.mysql.server import SourceAddress, connected

_READS = ("SELECT", "SHOW")


@dataclass(slots=True)
class Beat:
    """Asks one server, again and again."""

    statement: str
    _is_standby: bool | None = None
    """Whether it was read-only when it was last asked; None before."""

    def ask(self, address: SourceAddress) -> None:
        """Once, over a connection of its own: a server that takes no new ones is no good either.

        Raises SourceLost or SourceRefused where it does not do it.
        """
        writes = not self.statement.lstrip().upper().startswith(_READS)
        with connected(address) as cursor:
            if writes:
                cursor.execute("SELECT @@GLOBAL.read_only")
                is_standby = str(cursor.fetchall()[0][0]).upper() not in ("0", "OFF")
                if is_standby and self._is_standby is False:
                    raise SourceRefused("it has become read-only", source=address)
                self._is_standby = is_standby
                if is_standby:
                    return
            cursor.execute(self.statement)
            cursor.fetchall()
