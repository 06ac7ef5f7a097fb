"""The root of all errors: their parts, and how they print.

Invariant: a class's docstring is its message; ``retry`` states whether the error can resolve by itself;
``remedy`` is what the operator does, with the exact command, in which DEST is replaced by the destination, and
TABLE after it by the table. The
detail and the location are given when it is raised. An error prints as one line, whatever a name contains; only
``Faults`` take several.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

from wire.text import printed


class Retry(Enum):
    """Whether an error is retried without an operator."""

    TIMED = "timed"
    """It may resolve by itself: a new run from the cursor, with backoff."""
    MANUAL = "manual"
    """An operator must act first; nothing is lost meanwhile."""


class Faults(str):
    """Several faults as the end of an error's detail, each on a line of its own."""

    __slots__ = ()

    @classmethod
    def listed(cls, head: str, faults: Iterable[str]) -> Faults:
        """A heading, and the faults after it."""
        return cls("\n  - ".join(map(printed, (head, *faults))) + "\n")


class AqueductError(Exception):
    """Aqueduct stopped."""

    # No remedy: it is the base class of all errors, and never reported itself.
    retry: ClassVar[Retry] = Retry.MANUAL
    remedy: ClassVar[str] = ""

    def __init__(self, detail: str = "", /, *, remedy: str = "", **context: object) -> None:
        self.detail = detail
        self.context = {name: value for name, value in context.items() if value is not None}
        self.advice = remedy or self.remedy
        super().__init__(detail)

    @property
    def name(self) -> str:
        """The class's name, as metrics and status show it."""
        return type(self).__name__

    @property
    def in_one_line(self) -> str:
        """Its name and its text, as another error or an entry of the journal quotes it."""
        return " ".join(f"{self.name}: {self}".split())

    def __str__(self) -> str:
        headline = (type(self).__doc__ or "").strip().splitlines()[0].rstrip(".")
        detail = self.detail if isinstance(self.detail, Faults) else printed(self.detail)
        text = f"{headline}: {detail}" if detail else headline
        if self.context:
            text += (
                " ["
                + ", ".join(f"{name}={printed(value)}" for name, value in self.context.items())
                + "]"
            )
        # A list of faults ends with a newline, so the remedy gets a line of its own.
        end = "" if text.endswith("\n") else ". "
        return f"{text.rstrip('.')}{end}{self.action}".strip()

    @property
    def action(self) -> str:
        """What the operator does, with the names of this destination and table."""
        advice = self.advice
        if "table" in self.context:
            advice = advice.replace("DEST TABLE", f"DEST {shlex.quote(str(self.context['table']))}")
        return printed(advice.replace("DEST", str(self.context.get("destination", "DEST"))))
