"""The root of all errors: what each is made of, and how it prints.

The law: a class's docstring is its message; ``retry`` says whether time heals it; ``remedy`` tells the
operator what to do, with the very command, in which DEST becomes the destination. What and where are given
when it is raised, and all of it prints as one line, whatever a name contains; only ``Faults`` take several.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import ClassVar


class Retry(Enum):
    """What may be done about an error without a person."""

    TIMED = "timed"
    """Time may heal it: begin anew from the cursor, with backoff."""
    MANUAL = "manual"
    """A person must act first; nothing is lost meanwhile."""


class Faults(str):
    """Several faults as the end of an error's detail, each on a line of its own."""

    __slots__ = ()

    @classmethod
    def listed(cls, head: str, faults: Iterable[str]) -> Faults:
        """A heading, and the faults below it."""
        return cls("\n  - ".join(map(printed, (head, *faults))) + "\n")


class AqueductError(Exception):
    """Aqueduct stopped."""

    retry: ClassVar[Retry] = Retry.MANUAL
    remedy: ClassVar[str] = ""

    def __init__(self, detail: str = "", /, *, remedy: str = "", **where: object) -> None:
        self.detail = detail
        self.where = {name: value for name, value in where.items() if value is not None}
        self.advice = remedy or self.remedy
        super().__init__(detail)

    @property
    def name(self) -> str:
        """The class's name, as metrics and status show it."""
        return type(self).__name__

    def __str__(self) -> str:
        headline = (type(self).__doc__ or "").strip().splitlines()[0].rstrip(".")
        detail = self.detail if isinstance(self.detail, Faults) else printed(self.detail)
        text = f"{headline}: {detail}" if detail else headline
        if self.where:
            text += (
                " ["
                + ", ".join(f"{name}={printed(value)}" for name, value in self.where.items())
                + "]"
            )
        # A list of faults ends in a line's end; what to do then stands on a line of its own.
        end = "" if text.endswith("\n") else ". "
        advice = printed(self.advice.replace("DEST", str(self.where.get("destination", "DEST"))))
        return f"{text.rstrip('.')}{end}{advice}".strip()


def printed(value: object) -> str:
    """A value within a line for people: what is no visible character as its escape.

    So no name ends a line, moves the cursor of a terminal, or turns the direction in which it is read.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
