"""From generated source to a function.

The law: source is made of numbers and of names of our own, so tables and documents of the same layout share its
code; what comes from a server stands in the namespace alone.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any


@lru_cache(maxsize=512)
def _code(source: str) -> CodeType:
    return compile(source, "<generated>", "exec")


def function_of(source: str, namespace: dict[str, Any]) -> Any:
    """The function ``made`` that the source defines, with the namespace for its globals."""
    exec(_code(source), namespace)  # noqa: S102 - see the law
    return namespace["made"]
