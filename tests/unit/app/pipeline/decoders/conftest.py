"""The process that decoders are copies of is there before anything is counted."""

import pytest

from app.pipeline.decoders.fork_client import NURSERY


@pytest.fixture(autouse=True)
def nursery() -> None:
    NURSERY.ready()
