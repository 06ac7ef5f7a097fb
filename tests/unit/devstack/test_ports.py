"""Free ports."""

import socket

from devstack import ports


def test_a_port_that_is_wanted_is_given_while_nothing_listens_there() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        taken = server.getsockname()[1]
        assert ports.free_port(taken) != taken
    assert ports.free_port(taken) == taken
