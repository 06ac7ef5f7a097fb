"""Settings errors in terms of the settings file: paths by their names, each fault once.

Invariant: no value is shown, since a refused value may be a secret in the wrong place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_LABEL = re.compile(
    r"\(.*\)|\w+-(before|after|wrap|plain)\[.*|literal\[.*|\[key\]|bool|str|int|float", re.DOTALL
)
"""Parts of a path that pydantic adds: forms of a union, validators, a key instead of its value."""


def faults(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each path that has faults; faults of one value's several forms are joined."""
    found: dict[str, list[str]] = {}
    for error in errors:
        messages = found.setdefault(_setting_path(error), [])
        message = re.sub(r"^Value error, ", "", error["msg"])
        if message not in messages:
            messages.append(message)
    return [f"{path}: {' or '.join(messages)}" for path, messages in found.items()]


def _setting_path(error: Mapping[str, Any]) -> str:
    parts = [str(part) for part in error["loc"]]
    return ".".join(part for part in parts if not _LABEL.fullmatch(part)) or "settings"
