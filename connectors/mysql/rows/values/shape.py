"""The signature of all value readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[[bytes, int], tuple[Any, int]]
"""From a row image and an offset to the wire's value there and the offset after it."""
