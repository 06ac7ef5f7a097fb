"""The client's errors as the commands' own, so that an operator gets one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aqueduct_client.errors import BrokersDenied, BrokersLost, SubscriberError
from connectors.errors import KafkaDenied, KafkaLost, TopicPositionUnknown


@contextmanager
def as_aqueducts() -> Iterator[None]:
    """Raise what the client raises within the block as an AqueductError."""
    try:
        yield
    except BrokersLost as error:
        raise KafkaLost(_said(error)) from error
    except BrokersDenied as error:
        raise KafkaDenied(_said(error)) from error
    except SubscriberError as error:
        raise TopicPositionUnknown(_said(error)) from error


def _said(error: SubscriberError) -> str:
    """Return what the client found and where."""
    return ", ".join([error.detail, *(f"{name} {value}" for name, value in error.where.items())])
