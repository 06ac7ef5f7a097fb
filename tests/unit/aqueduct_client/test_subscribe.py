"""What a subscription refuses."""

import pytest

from aqueduct_client import subscribe
from aqueduct_client.errors import InvalidSubscription


def test_brokers_with_an_account_are_refused_since_errors_print_them() -> None:
    with pytest.raises(InvalidSubscription, match="without user and password") as caught:
        subscribe("trade.orders", group="g", brokers="u:hunter2@127.0.0.1:9092")
    assert "hunter2" not in str(caught.value)
