"""The threshold for generating JSON functions, set so that tests generate them at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from connectors.mysql.types import json_text


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Functions are made at the first container of their kind."""
    often, every = (mock.patch.object(json_text, name, 1) for name in ("_OFTEN", "_EVERY"))
    with often, every, mock.patch.object(json_text, "_FREQUENT", set()):
        yield
