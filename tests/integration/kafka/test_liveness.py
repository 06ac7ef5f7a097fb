"""The liveness check, with real brokers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connectors.errors import KafkaLost
from connectors.kafka.client import Liveness
from devstack import Stack
from devstack.ports import HOST, free_port


@pytest.fixture
def silent() -> Iterator[str]:
    """A port that accepts and never answers."""
    with socket.create_server((HOST, 0)) as server:
        yield f"{HOST}:{server.getsockname()[1]}"


async def test_one_broker_that_answers_is_enough(stack: Stack, silent: str) -> None:
    closed = f"{HOST}:{free_port()}"
    await Liveness({"bootstrap_servers": f"{silent},{closed},{stack.kafka}"}).check()


async def test_brokers_that_were_named_once_are_asked_too(stack: Stack) -> None:
    options = {"bootstrap_servers": stack.kafka}
    liveness = Liveness(options)
    await liveness.check()
    options["bootstrap_servers"] = f"{HOST}:{free_port()}"
    await liveness.check()


async def test_a_port_that_never_answers_counts_as_away(silent: str) -> None:
    with pytest.raises(KafkaLost, match="no broker answers"):
        await Liveness({"bootstrap_servers": silent}).check()
