"""The process that decoders are copies of is there before anything is counted."""

import pytest

from app.worker.pipeline.decoders.fork_client import FORK_SERVER


@pytest.fixture(autouse=True)
def fork_server() -> None:
    FORK_SERVER.ready()
