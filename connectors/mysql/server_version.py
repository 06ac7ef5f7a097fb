"""Server version checks.

Invariant: MySQL and MariaDB number their versions independently, so a check always names both
kinds.
"""

from __future__ import annotations

from typing import Protocol

Version = tuple[int, int, int]


class Server(Protocol):
    """A server whose kind and version are known."""

    @property
    def version(self) -> Version:
        """Its version, for example ``(9, 7, 4)``."""
        ...

    @property
    def mariadb(self) -> bool:
        """Whether it is MariaDB."""
        ...


def since(server: Server, *, mysql: Version | None, mariadb: Version | None) -> bool:
    """Whether a server has at least the version given for its kind; with None, that kind never qualifies."""
    wanted = mariadb if server.mariadb else mysql
    return wanted is not None and server.version >= wanted
