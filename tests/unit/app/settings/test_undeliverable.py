"""The handling of records too large to publish: the stores that settings accept."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.utils import is_valid_endpoint_url, is_valid_ipv6_endpoint_url
from pydantic import ValidationError

from app.settings.model import RecordSettings


def taken(path: str, **s3: str) -> RecordSettings:
    return RecordSettings.model_validate(
        {"oversize": "claim_check", "claim_check_path": path, "claim_check_s3": s3}
    )


def test_a_folder_is_taken_with_all_of_its_path_and_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "claims").mkdir()
    assert taken("claims").claims == str(tmp_path / "claims")
    with pytest.raises(ValidationError, match="absent is not a folder"):
        taken("absent")


@pytest.mark.parametrize("path", ["s3://claims", "s3://claims/", "s3://my.claims-1/of/the_shop"])
def test_a_bucket_is_taken_as_it_is(path: str) -> None:
    assert taken(path).claims == path.rstrip("/")


@pytest.mark.parametrize(
    "path", ["s3://", "s3:///p", "s3://b ucket", "s3://bucket/a//b", "s3://bucket/../x", "gs://b/p"]
)
def test_a_name_that_is_another_one_in_a_uri_or_a_path_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="neither a folder nor s3://bucket/prefix"):
        taken(path)


def test_an_endpoint_is_a_url_without_a_secret() -> None:
    assert taken("s3://b1", endpoint="https://minio.example:9000").claim_check_s3.region == ""
    for endpoint in ("minio:9000", "https://me:secret@minio", "ftp://minio", "https://a b"):
        with pytest.raises(ValidationError, match="endpoint"):
            taken("s3://b1", endpoint=endpoint)


HOSTS = ("minio", "minio-1.example", "10.0.0.7:9000", "minio.example.:9000/s3", "[::1]:9000")
NO_HOSTS = ("minio_1:9000", "-minio", "minio-.example", "a..b", "é.example", "b" * 64, "[zz]:9000")


@pytest.mark.parametrize("position", [*HOSTS, *NO_HOSTS, ".".join(["c" * 63] * 5)])
def test_an_endpoint_is_taken_where_the_library_takes_it(position: str) -> None:
    url = f"http://{position}"
    try:
        is_endpoint = bool(is_valid_endpoint_url(url) or is_valid_ipv6_endpoint_url(url))
    except ValueError:
        is_endpoint = False
    assert is_endpoint is (position in HOSTS)
    if is_endpoint:
        assert taken("s3://b1", endpoint=url).claim_check_s3.endpoint == url
    else:
        with pytest.raises(ValidationError, match="endpoint"):
            taken("s3://b1", endpoint=url)


@pytest.mark.parametrize("port", ["99999", "9x"])
def test_an_endpoint_has_a_port_that_there_may_be(port: str) -> None:
    with pytest.raises(ValidationError, match=f"http://minio:{port} is no URL of a server"):
        taken("s3://b1", endpoint=f"http://minio:{port}")


def test_a_name_of_compose_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValidationError, match=r"no _ .give 'minio_1' another name"):
        taken("s3://b1", endpoint="http://minio_1:9000")


def test_a_secret_has_no_place_among_them() -> None:
    with pytest.raises(ValidationError, match="secret_key"):
        taken("s3://b1", secret_key="x")


def test_a_claim_names_its_worker() -> None:
    with pytest.raises(ValidationError, match="needs claim_check_path"):
        RecordSettings(oversize="claim_check")
