"""Stored versions of the mapping and their differences, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.operator.commands.output import time_text
from app.operator.operations.mapping.versions import NewVersion
from tables.rules.mapping.mapping import Difference
from tables.rules.mapping.stored_version import StoredVersion


def difference_lines(found: Iterable[Difference]) -> list[str]:
    """Return a line for each difference; one if there is none."""
    lines = [
        f"{one.kind} {one.name}: {one.change}" + (f" ({', '.join(one.parts)})" if one.parts else "")
        for one in found
    ]
    return lines or ["no difference"]


def difference_values(found: Iterable[Difference]) -> list[dict[str, Any]]:
    """Return differences as JSON."""
    return [
        {"kind": one.kind, "name": one.name, "change": one.change, "parts": list(one.parts)}
        for one in found
    ]


def version_value(one: StoredVersion) -> dict[str, Any]:
    """Return a version as JSON, without its text."""
    return {
        "version": one.number,
        "digest": one.digest,
        "by": one.by,
        "time": time_text(one.ts_ms),
        "why": one.why,
        "restores": one.restores,
    }


def stored_lines(new: NewVersion) -> list[str]:
    """Return the confirmation of a stored version."""
    return [
        f"version {new.version.number} is stored; "
        + (f"version {new.before} was the newest" if new.before else "it is the first"),
        *difference_lines(new.differences),
        "Each destination publishes by it from a transaction boundary of its own on: `mapping` in /status.",
    ]


def stored_value(new: NewVersion) -> dict[str, Any]:
    """Return the confirmation as JSON."""
    return {
        **version_value(new.version),
        "before": new.before or None,
        "differences": difference_values(new.differences),
    }
