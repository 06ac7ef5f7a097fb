"""What happens to the worker's account at Kafka; MySQL's is in files.py, ZooKeeper's in zookeeper.py."""

from __future__ import annotations

from collections.abc import Callable

from tests.crash.accounts import PASSWORD, Account, Grant
from tests.crash.scenario import fault
from tests.crash.scene import Scene


@fault("kafka.password", "the password at Kafka is changed while the worker runs, and given back")
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
    return f"{error} meanwhile; went on in {at.wait_going_on():.1f} s"


@fault("kafka.password-file", "the password at Kafka is changed, and then in the worker's file")
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
    took = at.wait_going_on()
    account.set_password(PASSWORD)
    return f"went on {took:.1f} s after the file had it, without a restart"


def _revoked(name: str, what: str, grants: Callable[[Account], list[Grant]]) -> None:
    @fault(f"kafka.acl.{name}", f"{what} is revoked while the worker runs, and granted again")
    def act(at: Scene) -> str:
        account = _account(at)
        at.begin(kafka=account.settings())
        at.pause(0.5, 1.5)
        account.revoke(grants(account))
        error = at.wait_state("RETRYING")
        at.pause(3, 5)
        account.grant(grants(account))
        return f"{error} meanwhile; went on in {at.wait_going_on():.1f} s"


_revoked("write", "the right to write to topics", Account.on_writing)
_revoked("ids", "the right to transactional ids", Account.on_ids)
_revoked("topics", "all that an account may do with topics", Account.on_topics)


@fault("kafka.acl.read", "the right to read is revoked, the worker is killed, the right is granted")
def reading(at: Scene) -> str:
    account = _account(at)
    _killed_without(at, account, account.on_reading())
    error = at.wait_state("RETRYING")
    took = _granted_again(at, account, account.on_reading())
    return f"published without it; once it was killed {error}; went on in {took:.1f} s"


@fault("kafka.acl.group", "the right to the group is revoked, the worker is killed, and granted")
def group(at: Scene) -> str:
    account = _account(at)
    _killed_without(at, account, account.on_group())
    took = at.wait_going_on()
    _granted_again(at, account, account.on_group())
    return f"published without it after {took:.1f} s"


def _killed_without(at: Scene, account: Account, grants: list[Grant]) -> None:
    at.begin(kafka=account.settings())
    account.revoke(grants)
    at.pause(1, 2)
    at.wait_going_on()
    at.worker.kill()
    at.wait(lambda: len(at.worker.exits) == 1, "does not end")


def _granted_again(at: Scene, account: Account, grants: list[Grant]) -> float:
    at.pause(3, 5)
    account.grant(grants)
    took = at.wait_going_on()
    assert len(at.worker.exits) == 1, f"it ended with {at.worker.exits[1:]}"
    return took


def _error(at: Scene) -> str:
    return str(at.status().get("error") or "").partition(":")[0]


def _account(at: Scene) -> Account:
    return Account(at.servers.stack, f"worker-of-{at.prefix}", at.prefix).made()
