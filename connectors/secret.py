"""A password that is kept in a file, which is read again at each connection.

Invariant: a password changed on disk is used from the next connection on, without a restart. If the file cannot
be read then, the content last read is used, which the server may refuse. The password is never printed.
"""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)


class FileSecret(str):
    """Text whose file is read again by ``encode`` and ``now``; everywhere else it is the content first read.

    It is a ``str`` because every client library takes a ``str``.
    """

    path: Path
    before: str
    _last: str
    _is_lost: bool

    def __new__(cls, path: Path, before: str = "") -> FileSecret:
        """Make the text of ``before`` and a file's content, without the line breaks at its end.

        Raise OSError or UnicodeDecodeError.
        """
        content = before + _read(path)
        made = super().__new__(cls, content)
        made.path, made.before, made._last, made._is_lost = path, before, content, False
        return made

    def now(self) -> str:
        """Return the text with the file's present content, or with the last content if it cannot be read."""
        try:
            self._last = self.before + _read(self.path)
            self._is_lost = False
        except (OSError, UnicodeDecodeError) as error:
            if not self._is_lost:
                log.error(
                    "%s cannot be read, what it held before is used: %s",
                    self.path, getattr(error, "strerror", None) or type(error).__name__,
                )  # fmt: skip
            self._is_lost = True
        return self._last

    def after(self, before: str) -> FileSecret:
        """Return the same secret with another text before it, such as an account's name."""
        return FileSecret(self.path, before)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes of ``now``."""
        return self.now().encode(encoding, errors)

    def __repr__(self) -> str:
        return "'***'"

    def __reduce__(self) -> tuple[type[FileSecret], tuple[Path, str]]:
        return FileSecret, (self.path, self.before)


def text_of(secret: str) -> str:
    """Return a password as it is now, whether or not it is kept in a file."""
    return secret.now() if isinstance(secret, FileSecret) else secret


def _read(path: Path) -> str:
    return path.read_text("utf-8").rstrip("\r\n")
