"""A password that is kept in a file, read again at each connection.

Invariant: what was changed on disk holds from the next connection on, without a restart; a file that cannot be
read just then leaves the last content, which the server may refuse. It prints nowhere.
"""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)


class FileSecret(str):
    """Text that is read from its file whenever it is encoded or asked for ``now``; else it is as it was first.

    A string, because every client library takes one.
    """

    path: Path
    before: str
    _last: str
    _is_lost: bool

    def __new__(cls, path: Path, before: str = "") -> FileSecret:
        """The content of a file, without the last line's end, after some other text; raise OSError."""
        content = before + _read(path)
        made = super().__new__(cls, content)
        made.path, made.before, made._last, made._is_lost = path, before, content, False
        return made

    def now(self) -> str:
        """The text, with what the file holds now."""
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
        """The same with other text before it, such as an account's name."""
        return FileSecret(self.path, before)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The bytes of ``now``."""
        return self.now().encode(encoding, errors)

    def __repr__(self) -> str:
        return "'***'"

    def __reduce__(self) -> tuple[type[FileSecret], tuple[Path, str]]:
        return FileSecret, (self.path, self.before)


def text_of(secret: str) -> str:
    """A password as it is now, wherever it is kept."""
    return secret.now() if isinstance(secret, FileSecret) else secret


def _read(path: Path) -> str:
    return path.read_text("utf-8").rstrip("\r\n")
