"""Compilation of generated source to a function.

Invariant: source consists of numbers and of names of our own, so tables and documents of the same
layout share its code; values from a server are in the namespace only.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any


@lru_cache(maxsize=512)
def _code(source: str) -> CodeType:
    return compile(source, "<generated>", "exec")


def function_of(source: str, namespace: dict[str, Any]) -> Any:
    """The function ``made`` that the source defines, with the namespace as its globals."""
    exec(_code(source), namespace)  # noqa: S102 - see the invariant
    return namespace["made"]
