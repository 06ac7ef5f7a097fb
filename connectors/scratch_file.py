"""An SQLite file for one comparison, so that memory stays bounded however much is compared.

Invariant: the file is unlinked once it is open, so nothing remains.
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

_CACHE_KIB = 64 * 1024


def scratch(tables: str) -> sqlite3.Connection:
    """A new database with these tables; it is gone once the connection is closed."""
    # SQLite opens its file by name. The file is removed at once; its content lasts as long as the connection.
    with tempfile.TemporaryDirectory(prefix="aqueduct-") as folder:
        # A comparison may run in a thread of its own. It waits while the event loop's thread passes it
        # the topics' records.
        db = sqlite3.connect(
            Path(folder) / "scratch.db", isolation_level=None, check_same_thread=False
        )
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA temp_store = FILE")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        db.executescript(tables)
    return db
