"""A password that is kept in a file, which is read again at each connection.

Invariant: a password changed on disk is used from the next connection on, without a restart. If the file cannot
be read then, the content last read is used, which the server may refuse. The password is never printed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)


class FileSecret(str):
    """Text whose file is read again by ``encode`` and ``now``; everywhere else it is the content first read.

    It is a ``str`` because every client library takes a ``str``.
    """

    path: Path
    before: str
    _content: str | None
    """The file's content as last read, without the line breaks at its end; None if it could not be read yet."""
    _is_lost: bool

    def __new__(cls, path: Path, before: str = "") -> FileSecret:
        """Make the text of ``before`` and a file's content. Raise OSError or UnicodeDecodeError."""
        return cls._made(path, before, _read(path))

    @classmethod
    def _made(cls, path: Path, before: str, content: str | None) -> FileSecret:
        made = super().__new__(cls, before + (content or ""))
        made.path, made.before, made._content, made._is_lost = path, before, content, False
        return made

    def now(self) -> str:
        """Return the text with the file's present content, or with the last content if it cannot be read.

        Raise OSError or UnicodeDecodeError if it could never be read in this process.
        """
        try:
            self._content = _read(self.path)
            self._is_lost = False
        except (OSError, UnicodeDecodeError) as error:
            if self._content is None:
                raise
            if not self._is_lost:
                log.error(
                    "%s cannot be read, what it held before is used: %s",
                    self.path, getattr(error, "strerror", None) or type(error).__name__,
                )  # fmt: skip
            self._is_lost = True
        return self.before + (self._content or "")

    def after(self, before: str) -> FileSecret:
        """Return the same secret with another text before it, such as an account's name."""
        return self._made(self.path, before, self._content)

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes of ``now``."""
        return self.now().encode(encoding, errors)

    def __repr__(self) -> str:
        return "'***'"

    def __reduce__(self) -> tuple[Callable[[Path, str], FileSecret], tuple[Path, str]]:
        return _in_another_process, (self.path, self.before)


def text_of(secret: str) -> str:
    """Return a password as it is now, whether or not it is kept in a file."""
    return secret.now() if isinstance(secret, FileSecret) else secret


def _in_another_process(path: Path, before: str) -> FileSecret:
    """The secret, though its file may not be readable before it is used."""
    content = None
    with suppress(OSError, UnicodeDecodeError):
        content = _read(path)
    return FileSecret._made(path, before, content)


def _read(path: Path) -> str:
    return path.read_text("utf-8").rstrip("\r\n")
