"""The mapping of the library's and a server's errors by a claim store in a bucket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from connectors.errors import (
    AqueductError,
    ClaimStoreDenied,
    ClaimStoreLost,
    ClaimStoreRefused,
    Retry,
)
from connectors.store.s3 import S3Access, S3Store
from tests.s3 import CREDENTIALS

NOWHERE = "http://127.0.0.1:1"
NAME = f"aq.shop.orders/2026-11-21/{'a' * 64}.json"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


def error_of(store: S3Store) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        store.put(NAME, b"value")
    return caught.value


def meaning(status: int, code: str) -> AqueductError:
    answer = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    store = S3Store("s3://claims", S3Access(endpoint=NOWHERE))
    with pytest.raises(AqueductError) as caught, store._named(NAME):
        raise ClientError(answer, "PutObject")
    return caught.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (408, "408"),
        (429, "TooManyRequests"),
        (409, "OperationAborted"),
        (409, "ConditionalRequestConflict"),
        (400, "ThrottlingException"),
        (400, "Throttling"),
        (400, "SlowDown"),
        (400, "RequestTimeout"),
        (403, "RequestThrottled"),
        (503, "SlowDown"),
    ],
)
def test_a_server_that_is_busy_is_asked_again(status: int, code: str) -> None:
    error = meaning(status, code)
    assert type(error) is ClaimStoreLost
    assert error.retry is Retry.TIMED


@pytest.mark.parametrize("code", ["RequestExpired", "ExpiredToken", "ExpiredTokenException"])
def test_credentials_that_have_expired_are_to_be_renewed(code: str) -> None:
    error = meaning(400, code)
    assert type(error) is ClaimStoreDenied
    assert "Renew them if they have expired" in str(error)


@pytest.mark.parametrize(("status", "code"), [(400, "InvalidArgument"), (409, "BucketNotEmpty")])
def test_what_does_not_pass_by_itself_waits_for_an_operator(status: int, code: str) -> None:
    assert meaning(status, code).retry is Retry.MANUAL


@pytest.mark.parametrize("endpoint", ["localhost:9000", "http://minio_1:9000", "http://[zz]:9000"])
def test_an_endpoint_of_the_environment_that_is_none_is_reported_with_what_one_is(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    error = error_of(S3Store("s3://claims", S3Access()))
    assert type(error) is ClaimStoreRefused
    assert "AWS_ENDPOINT_URL_S3" in str(error)


def test_a_secret_that_no_header_takes_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-token\nand-its-rest")
    error = error_of(S3Store("s3://claims", S3Access(endpoint=NOWHERE)))
    assert type(error) is ClaimStoreDenied
    assert "the-token" not in str(error)


def test_credentials_that_come_into_their_file_are_taken_by_the_same_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    file.write_text("[default]\n")
    store = S3Store("s3://claims", S3Access(endpoint=NOWHERE))
    assert type(error_of(store)) is ClaimStoreDenied
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    # It is let out of the house now, and finds that nobody is there.
    assert type(error_of(store)) is ClaimStoreLost
