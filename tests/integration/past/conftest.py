"""Servers that end with their test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.processes import Children


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of a test."""
    owner = Children()
    yield owner
    owner.kill()
