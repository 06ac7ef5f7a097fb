import pytest

from bench.peers.software import LOCKS
from devstack.jars import parse_lock


@pytest.mark.parametrize("name", LOCKS)
def test_the_locks_of_the_peers_name_no_file_twice(name: str) -> None:
    names = [jar.file_name for jar in parse_lock(LOCKS[name].read_text())]
    assert names
    assert len(names) == len(set(names))
