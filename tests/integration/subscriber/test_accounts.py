"""A subscriber whose account has the rights that the documents name, and one that lacks one of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from app.operator.terminal import run_operation
from aqueduct_client import KafkaTransactions, subscribe, subscribe_async
from aqueduct_client.errors import BrokersDenied
from devstack import Stack
from devstack.kafka import Kafka
from devstack.ports import HOST, free_port
from tests.crash.accounts import Account, Grant
from tests.unit.aqueduct_client.made import headers, seqs, value

_READ, _WRITE, _CREATE, _DESCRIBE = 3, 4, 5, 8
_TOPIC, _GROUP, _ID = 2, 3, 5
_LITERAL = 3


class WithAccounts(Stack):
    """A broker whose accounts may do what they are granted; who need not sign in may do all."""

    def __init__(self, folder: Any, accounts: list[str]) -> None:
        super().__init__(folder, ("kafka",))
        self._accounts = accounts
        self.signed = f"{HOST}:{free_port()}"

    def _start_kafka(self) -> None:
        program, libraries = self._java("kafka")
        server = Kafka(self.run_dir / "kafka", libraries, java=program, owner=self.children)
        listeners = {"PLAINTEXT": server.address, "SIGNED": self.signed}
        controller = f"CONTROLLER://{HOST}:{server._controller_port}"
        shown = ",".join(f"{name}://{at}" for name, at in listeners.items())
        users = " ".join(f'user_{name}="secret"' for name in self._accounts)
        server._options = {
            "listeners": f"{shown},{controller}",
            "advertised.listeners": shown,
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SIGNED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.signed.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self._start("kafka", server)


def on(kind: int, name: str, *operations: int) -> set[Grant]:
    return {Grant(kind, name, _LITERAL, one) for one in operations}


ORDERS, NOTES = on(_TOPIC, "aq.trade.orders", _READ, _DESCRIBE), "aq.__subscribers"
SCHEMAS = {
    grant
    for name in ("aq.__schemas", "aq.__logical_schemas")
    for grant in on(_TOPIC, name, _READ, _DESCRIBE)
}
DOCUMENTED = ORDERS | SCHEMAS | on(_GROUP, "mails", _READ)
DOCUMENTED |= on(_TOPIC, NOTES, _READ, _WRITE, _DESCRIBE)
LACKING = {
    "topic": (ORDERS, "Describe on the topic aq.trade.orders"),
    "reading": (on(_TOPIC, "aq.trade.orders", _READ), "Read on the topic aq.trade.orders"),
    "group": (on(_GROUP, "mails", _READ), "Read on the group mails"),
    "notes": (on(_TOPIC, NOTES, _READ, _WRITE, _DESCRIBE), f"Describe on the topic {NOTES}"),
    "noting": (on(_TOPIC, NOTES, _WRITE), f"Write on the topic {NOTES}"),
    "noted": (on(_TOPIC, NOTES, _READ), f"Read on the topic {NOTES}"),
}
"""By account, what it lacks, and what its error names."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithAccounts]:
    names = ["whole", "schemas", "late", *LACKING]
    made = WithAccounts(tmp_path_factory.mktemp("accounts"), names)
    try:
        made.start()
        grants = {name: DOCUMENTED - lacks for name, (lacks, _) in LACKING.items()}
        grants |= {"whole": DOCUMENTED, "schemas": DOCUMENTED - SCHEMAS}
        later = {
            Grant(one.resource, one.name.replace("aq.", "new."), one.pattern, one.operation)
            for one in DOCUMENTED
        }
        grants["late"] = DOCUMENTED | later
        for name, some in grants.items():
            Account(made, name, "aq").grant(sorted(some, key=repr))  # type: ignore[arg-type]
        yield made
    finally:
        made.children.kill()


@pytest.fixture
def orders(stack: WithAccounts) -> None:
    run_operation(created(stack))


async def created(stack: WithAccounts) -> None:
    """Have the topics of an installation and of one without notes, and three changes."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stack.kafka)
    await admin.start()
    names = ["aq.trade.orders", "aq.__schemas", "aq.__logical_schemas", NOTES, "new.trade.orders"]
    await admin.create_topics([NewTopic(name, 1, 1) for name in names])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=stack.kafka) as producer:
        for topic in ("aq.trade.orders", "new.trade.orders"):
            for seq in (1, 2, 3):
                await producer.send_and_wait(topic, value(seq), headers=headers(seq))


def signed(account: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": account,
        "sasl_plain_password": "secret",
    }


def read(stack: WithAccounts, account: str, **more: Any) -> list[int]:
    """What an account gets at first, acknowledged."""
    found: list[int] = []
    with subscribe(
        "trade.orders",
        group="mails",
        brokers=stack.signed,
        kafka=signed(account),
        connect_timeout=30,
        **more,
    ) as subscriber:
        while len(found) < 3:
            found += seqs(subscriber.get(timeout=5))
    return found


@pytest.mark.remedy("client.BrokersDenied")
@pytest.mark.usefixtures("orders")
def test_an_account_needs_what_the_documents_name_and_an_error_names_what_it_lacks(
    stack: WithAccounts, caplog: pytest.LogCaptureFixture
) -> None:
    found = dict[str, str]()
    for name in LACKING:
        with pytest.raises(BrokersDenied) as denied:
            read(stack, name)
        found[name] = denied.value.detail
    assert found == {
        name: f"the account lacks the right {right}" for name, (_, right) in LACKING.items()
    }
    with pytest.raises(BrokersDenied, match=r"cannot be made: .* Create on the topic new\.__subs"):
        read(stack, "late", prefix="new")
    Account(stack, "late", "aq").grant([*on(_TOPIC, "new.__subscribers", _CREATE)])  # type: ignore[arg-type]
    assert read(stack, "late", prefix="new") == [1, 2, 3]
    # A topic that several tables share: only the names of the tables cannot be checked.
    caplog.set_level(logging.WARNING, "aqueduct_client")
    with subscribe(
        "trade.orders",
        group="mails",
        brokers=stack.signed,
        kafka=signed("schemas"),
        topics={"trade": "aq.trade.orders"},
    ) as subscriber:
        assert "the names of the tables cannot be checked" in caplog.text
        batch = subscriber.get_without_ack(timeout=30)
        assert seqs(batch) == [1, 2, 3]
        with pytest.raises(BrokersDenied, match=r"Describe on the topic aq\.__schemas"):
            subscriber.schema_of(next(iter(batch)))
    run_operation(in_transactions(stack))
    assert read(stack, "whole") == [1, 2, 3]


async def in_transactions(stack: WithAccounts) -> None:
    """An account without the right to its transactional ids is denied, and nothing is acknowledged."""
    own = subscribe_async(
        "trade.orders", group="mails", brokers=stack.signed, kafka=signed("whole")
    )
    transactions = KafkaTransactions(
        subscriber=own, group="mails", brokers=stack.signed, kafka=signed("whole")
    )
    with pytest.raises(
        BrokersDenied, match=r"Write on the transactional id .*mails\.aq\.trade\.orders\.0"
    ):
        async with own, transactions:
            await own.get_without_ack(timeout=30)
