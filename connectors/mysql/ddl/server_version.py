"""From which version on a server does a thing.

The law: MySQL and MariaDB number their versions apart, so a version is never asked for without saying whose.
"""

from __future__ import annotations

from connectors.mysql.ddl.definition import Server

Version = tuple[int, int, int]


def since(server: Server, *, mysql: Version | None, mariadb: Version | None) -> bool:
    """Whether a server is at least of that version; None: that kind of server never does it."""
    wanted = mariadb if server.mariadb else mysql
    return wanted is not None and server.version >= wanted
