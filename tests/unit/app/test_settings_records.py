"""What is done with a record that cannot go out as it is: which stores the settings take."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings_records import RecordSettings


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


def test_a_secret_has_no_place_among_them() -> None:
    with pytest.raises(ValidationError, match="secret_key"):
        taken("s3://b1", secret_key="x")


def test_whoever_claims_says_where() -> None:
    with pytest.raises(ValidationError, match="needs claim_check_path"):
        RecordSettings(oversize="claim_check")
