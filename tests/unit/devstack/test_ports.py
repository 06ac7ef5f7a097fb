"""Free ports."""

import random
import socket
import subprocess
import sys

import pytest

from devstack import ports


def test_a_port_that_is_wanted_is_given_while_nothing_listens_there() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        taken = server.getsockname()[1]
        assert ports.free_port(taken) != taken
    assert ports.free_port(taken) == taken


def test_a_port_is_chosen_once_though_its_server_does_not_listen_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ports.free_port()
    monkeypatch.setattr(random, "sample", lambda *_: [first, *range(20_000, 20_200)])
    assert ports.free_port() != first
    elsewhere = [sys.executable, "-c", f"from devstack import ports; print(ports._choose({first}))"]
    assert subprocess.run(elsewhere, capture_output=True, check=True, text=True).stdout == "False\n"


def test_a_port_that_was_chosen_is_given_to_the_server_that_had_it() -> None:
    port = ports.free_port()
    assert ports.free_port(port) == port
