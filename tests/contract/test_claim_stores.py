"""The contract of claim stores: a folder, a bucket and the in-memory twin; and the rules of bucket names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.errors import (
    AqueductError,
    ClaimBucketGone,
    ClaimGone,
    ClaimStoreDenied,
    ClaimStoreLost,
    ClaimStoreRefused,
    Retry,
)
from connectors.store.claims import ClaimStore, FolderStore, MemoryStore, name_of
from connectors.store.s3 import S3Access, S3Store
from tests.s3 import CREDENTIALS, Line, S3Server, line_to, s3_server

NAME = f"aq.shop.orders/2026-11-21/{'a' * 64}.json"


BUCKET = "claims"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3")) as running:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        running.make(BUCKET)
        yield running


@pytest.fixture(scope="module")
def connected(server: S3Server) -> Iterator[tuple[S3Store, Line]]:
    with line_to(server) as line:
        yield S3Store(f"s3://{BUCKET}/of/the.shop", S3Access(endpoint=line.endpoint)), line


@pytest.fixture
def bucket(connected: tuple[S3Store, Line]) -> S3Store:
    return connected[0]


@pytest.fixture
def line(connected: tuple[S3Store, Line]) -> Line:
    connected[1].repair()
    return connected[1]


@pytest.fixture(params=["folder", "memory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ClaimStore:
    if request.param == "folder":
        return FolderStore(str(tmp_path))
    if request.param == "memory":
        return MemoryStore()
    request.getfixturevalue("line")
    found: S3Store = request.getfixturevalue("bucket")
    return found


@pytest.mark.parametrize("value", [b"{}", '{"v":"é✓\\u0000"}'.encode(), bytes(range(256)) * 8000])
def test_a_value_is_had_again_to_the_byte_by_the_end_of_its_location(
    store: ClaimStore, value: bytes
) -> None:
    location = store.put(NAME, value)
    assert location.endswith(f"/{NAME}")
    assert name_of(location) == NAME
    assert store.get(NAME) == value


def test_the_same_value_kept_twice_is_at_the_same_place(store: ClaimStore) -> None:
    assert store.put(NAME, b"value") == store.put(NAME, b"value")
    assert store.get(NAME) == b"value"


@pytest.mark.usefixtures("line")
def test_an_object_is_where_its_location_says_and_there_once(
    server: S3Server, bucket: S3Store
) -> None:
    for _ in range(2):
        assert bucket.put(NAME, b"value") == f"s3://{BUCKET}/of/the.shop/{NAME}"
    assert server.keys(BUCKET) == [f"of/the.shop/{NAME}"]
    other = S3Store(f"s3://{BUCKET}/", S3Access(endpoint=server.endpoint))
    assert other.put(NAME, b"value") == f"s3://{BUCKET}/{NAME}"
    assert server.keys(BUCKET) == [NAME, f"of/the.shop/{NAME}"]


@pytest.mark.remedy("ClaimGone")
def test_a_value_that_is_missing_is_missed_by_name_until_it_is_restored(store: ClaimStore) -> None:
    store.put(NAME, b"value")
    with pytest.raises(ClaimGone, match=r"b/d/y\.json"):
        store.get("b/d/y.json")
    store.put("b/d/y.json", b"copy")
    assert store.get("b/d/y.json") == b"copy"


@pytest.mark.remedy("ClaimBucketGone")
def test_a_bucket_that_is_gone_is_not_made_and_waits_for_an_operator(server: S3Server) -> None:
    store = S3Store("s3://gone-bucket/claims", S3Access(endpoint=server.endpoint))
    error = refused(store)
    assert type(error) is ClaimBucketGone
    assert error.retry is Retry.MANUAL
    assert f"s3://gone-bucket/claims/{NAME}" in str(error)
    assert server.endpoint in str(error)
    server.make("gone-bucket")
    store.put(NAME, b"value")
    assert store.get(NAME) == b"value"


@pytest.mark.usefixtures("line")
def test_a_refused_client_tries_again_and_no_secret_is_shown(
    server: S3Server, bucket: S3Store
) -> None:
    with server.asking_who_it_is():
        error = refused(bucket)
    assert type(error) is ClaimStoreDenied
    assert error.retry is Retry.TIMED
    assert "s3:PutObject" in str(error)
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(error)
    bucket.put(NAME, b"value")  # it passes without a new store


def test_no_credentials_at_all_are_reported_by_name(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    access = S3Access(endpoint=server.endpoint)
    assert type(refused(S3Store(f"s3://{BUCKET}", access))) is ClaimStoreDenied
    absent = S3Access(endpoint=server.endpoint, profile="absent")
    assert "absent" in str(refused(S3Store(f"s3://{BUCKET}", absent)))


@pytest.mark.remedy("ClaimStoreLost", "ClaimStoreRefused")
def test_a_server_is_asked_again_once_it_answers_and_its_endpoint_is_one(server: S3Server) -> None:
    error = refused(S3Store(f"s3://{BUCKET}", S3Access(endpoint=server.endpoint[7:])))
    assert type(error) is ClaimStoreRefused
    assert "http:// or https://" in str(error)
    with line_to(server) as line:
        store = S3Store(f"s3://{BUCKET}", S3Access(endpoint=line.endpoint))
        line.answer = lambda _: 503
        assert type(refused(store)) is ClaimStoreLost
        line.repair()
        assert store.get(store.put(NAME, b"value").removeprefix(f"s3://{BUCKET}/")) == b"value"


def test_a_server_that_does_not_answer_is_tried_again() -> None:
    error = refused(S3Store("s3://bucket", S3Access(endpoint="http://127.0.0.1:1")))
    assert type(error) is ClaimStoreLost
    assert error.retry is Retry.TIMED
    assert "http://127.0.0.1:1" in str(error)


def test_a_busy_server_is_asked_again_before_it_is_reported(line: Line, bucket: S3Store) -> None:
    line.answer = lambda _: 503 if len(line.asked) <= 2 else 0
    bucket.put(NAME, b"value")
    assert line.asked == ["PUT", "PUT", "PUT", "HEAD"]
    line.answer = lambda _: 503
    assert type(refused(bucket)) is ClaimStoreLost
    line.answer = lambda _: 408
    assert type(refused(bucket)) is ClaimStoreLost


def test_a_value_that_cannot_be_read_is_not_reported_as_one_that_was_not_written(
    tmp_path: Path,
) -> None:
    (tmp_path / NAME).mkdir(parents=True)
    away = S3Store("s3://bucket", S3Access(endpoint="http://127.0.0.1:1"))
    for store in (FolderStore(str(tmp_path)), away):
        with pytest.raises(ClaimStoreLost) as caught:
            store.get(NAME)
        assert "written" not in str(caught.value).split(": ")[0]


@pytest.mark.parametrize("damage", [lambda b: b[:-1] + b"?", lambda b: b[:-1], lambda b: b + b"?"])
def test_a_value_that_is_not_kept_as_it_was_sent_has_no_pointer(
    line: Line, bucket: S3Store, damage: object
) -> None:
    line.sent = lambda body: damage(body)  # type: ignore[operator]
    assert type(refused(bucket)) is ClaimStoreLost


def test_where_the_servers_checksum_is_of_another_kind_the_value_is_read_back(
    line: Line, bucket: S3Store
) -> None:
    line.tag = lambda _: '"0123-of-what-was-encrypted"'
    bucket.put(NAME, b"value")
    assert line.asked == ["PUT", "HEAD", "GET"]
    line.sent = lambda body: body[:-1] + b"?"
    assert type(refused(bucket)) is ClaimStoreLost


def test_an_object_that_is_gone_right_after_its_write_is_written_again(
    line: Line, bucket: S3Store
) -> None:
    line.answer = lambda method: 404 if method == "HEAD" else 0
    assert type(refused(bucket)) is ClaimStoreLost


def test_what_the_server_does_not_take_at_all_waits_for_an_operator(
    line: Line, bucket: S3Store
) -> None:
    line.answer = lambda _: 405
    error = refused(bucket)
    assert type(error) is ClaimStoreRefused
    assert error.retry is Retry.MANUAL


def test_without_a_bucket_the_library_is_not_imported() -> None:
    program = (
        "import sys, app.worker.pipeline.encode, connectors.store.s3 as s3\n"
        "s3.S3Store('s3://bucket', s3.S3Access())\n"
        "print('botocore' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def refused(store: ClaimStore) -> AqueductError:
    with pytest.raises(AqueductError) as caught:
        store.put(NAME, b"the value")
    return caught.value
