"""Faults of the worker's account at Kafka; MySQL's are in files.py, ZooKeeper's in zookeeper.py."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.accounts import PASSWORD, Account, Grant
from tests.crash.scenario import fault
from tests.crash.scene import Scene


@fault(
    "kafka.password", "the password at Kafka is changed while the worker is running, then restored"
)
def password(at: Scene) -> str:
    account = _account(at)
    at.begin(kafka=account.settings())
    at.pause(0.5, 1.5)
    account.set_password("another")
    at.servers.stack.signed.reset()
    at.wait(lambda: _error(at) == "KafkaDenied", "does not say that it is not let in")
    error = at.wait_state("RETRYING")
    at.pause(3, 5)
    account.set_password(PASSWORD)
    return f"{error} meanwhile; recovered in {at.wait_recovered():.1f} s"


@fault(
    "kafka.password-file", "the password is changed at Kafka, then in the worker's password file"
)
def password_file(at: Scene) -> str:
    account, file = _account(at), at.folder / "kafka-password"
    file.write_text(PASSWORD)
    settings = account.settings()
    del settings["sasl_password"]
    at.begin(kafka={**settings, "sasl_password_file": str(file)})
    at.pause(0.5, 1.5)
    account.set_password("another")
    at.servers.stack.signed.reset()
    at.wait(lambda: _error(at) == "KafkaDenied", "does not say that it is not let in")
    at.pause(1, 2)
    file.write_text("another\n")
    took = at.wait_recovered()
    account.set_password(PASSWORD)
    return f"recovered {took:.1f} s after the file was changed, without a restart"


def _revoked(name: str, what: str, grants: Callable[[Account], list[Grant]]) -> None:
    @fault(f"kafka.acl.{name}", f"{what} revoked while the worker is running, then granted again")
    def act(at: Scene) -> str:
        account = _account(at)
        at.begin(kafka=account.settings())
        at.pause(0.5, 1.5)
        account.revoke(grants(account))
        error = at.wait_state("RETRYING")
        at.pause(3, 5)
        account.grant(grants(account))
        return f"{error} meanwhile; recovered in {at.wait_recovered():.1f} s"


_revoked("write", "WRITE on topics is", Account.on_writing)
_revoked("ids", "all privileges on transactional ids are", Account.on_ids)
_revoked("topics", "all privileges on topics are", Account.on_topics)


@fault("kafka.acl.read", "READ on topics is revoked, the worker is killed, READ is granted again")
def reading(at: Scene) -> str:
    account = _account(at)
    _killed_without(at, account, account.on_reading())
    error = at.wait_state("RETRYING")
    took = _granted_again(at, account, account.on_reading())
    return f"published without it; after the kill {error}; recovered in {took:.1f} s"


@fault(
    "kafka.acl.group",
    "READ on the consumer group is revoked, the worker is killed, READ is granted again",
)
def group(at: Scene) -> str:
    account = _account(at)
    _killed_without(at, account, account.on_group())
    took = at.wait_recovered()
    _granted_again(at, account, account.on_group())
    return f"published without it after {took:.1f} s"


def _killed_without(at: Scene, account: Account, grants: list[Grant]) -> None:
    at.begin(kafka=account.settings())
    account.revoke(grants)
    at.pause(1, 2)
    at.wait_recovered()
    at.worker.kill()
    at.wait(lambda: len(at.worker.exits) == 1, "does not end")


def _granted_again(at: Scene, account: Account, grants: list[Grant]) -> float:
    at.pause(3, 5)
    account.grant(grants)
    took = at.wait_recovered()
    assert len(at.worker.exits) == 1, f"it ended with {at.worker.exits[1:]}"
    return took


def _error(at: Scene) -> str:
    return str(at.status().get("error") or "").partition(":")[0]


def _account(at: Scene) -> Account:
    return Account(at.servers.stack, f"worker-of-{at.prefix}", at.prefix).made()
