"""A claim-check store in a bucket: of AWS, or of anything that supports S3, as MinIO and Ceph do.

Invariant: before ``put`` returns, the server has confirmed the stored value's length, and either a
checksum that it computed itself, or the whole value was read back. A name has one content, so the
same change written twice is one object. No secret comes from the settings: credentials are found in
S3's usual places. A worker without such a store never imports the library.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from connectors.errors import (
    AqueductError,
    ClaimBucketGone,
    ClaimGone,
    ClaimStoreDenied,
    ClaimStoreLost,
    ClaimStoreRefused,
)

SCHEME = "s3://"

_ATTEMPTS = 4
"""Attempts of one request, with growing pauses; after the last attempt the run ends, and is restarted with
backoff."""
_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 20
_ANY_REGION = "us-east-1"
"""The region accepted by servers other than AWS if none is set."""
_FORBIDDEN = (401, 403)
_DENIED = frozenset(
    {
        "AccessDenied",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidToken",
        "RequestExpired",
        "RequestTimeTooSkewed",
        "TokenRefreshRequired",
    }
)
_DAMAGED = frozenset({"BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch"})
"""The received value is not the one sent; a retry may succeed."""
_BUSY = frozenset(
    {
        "ConditionalRequestConflict",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeoutException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""The server is busy; the status that accompanies these codes differs from server to server."""
_TIMED_OUT, _TOO_MANY, _SERVER_FAULT = 408, 429, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """The connection to a store; empty fields are left to the environment and the usual files."""

    endpoint: str = ""
    region: str = ""
    profile: str = ""


class S3Store:
    """Values below ``s3://bucket/prefix``."""

    def __init__(self, location: str, access: S3Access) -> None:
        self._location = location.rstrip("/")
        self._bucket, _, self._prefix = self._location.removeprefix(SCHEME).partition("/")
        self._access = access
        self._made: Any = None

    def put(self, name: str, value: bytes) -> str:
        """Keep a value for good; return its URI. Raise a named error of the claim store."""
        # S3 itself stores a checksum of what it received; every such server computes it.
        checksum = hashlib.md5(value, usedforsecurity=False)
        with self._named(name):
            self._client().put_object(
                **self._object(name),
                Body=value,
                ContentMD5=base64.b64encode(checksum.digest()).decode(),
                ContentType="application/json",
            )
        head = self._head(name)
        is_whole = head["ContentLength"] == len(value)
        # The tag of an object that the server encrypts is another; then the value must be read back.
        is_same = head.get("ETag", "").strip('"') == checksum.hexdigest()
        if not is_whole or not (is_same or self.get(name) == value):
            raise self._error(ClaimStoreLost, "it does not hold what was sent", name)
        return f"{self._location}/{name}"

    def _head(self, name: str) -> dict[str, Any]:
        try:
            with self._named(name):
                head: dict[str, Any] = self._client().head_object(**self._object(name))
        except ClaimGone as error:
            raise self._error(ClaimStoreLost, "it took it and does not hold it", name) from error
        return head

    def get(self, name: str) -> bytes:
        """Return the value of a name. Raise ClaimGone, and what ``put`` raises."""
        with self._named(name):
            body = self._client().get_object(**self._object(name))["Body"]
            with body:
                value: bytes = body.read()
        return value

    def _object(self, name: str) -> dict[str, str]:
        key = f"{self._prefix}/{name}" if self._prefix else name
        return {"Bucket": self._bucket, "Key": key}

    def _error(self, kind: type[AqueductError], what: str, name: str) -> AqueductError:
        uri = f"{self._location}/{name}"
        return kind(what, object=uri, endpoint=self._access.endpoint or None)

    def _client(self) -> Any:
        """The library's client, made for the first request."""
        if self._made is None:
            # Both imports take a while, and most workers never need them.
            from botocore.config import Config
            from botocore.session import Session

            session = Session(profile=self._access.profile or None)
            self._made = session.create_client(
                "s3",
                region_name=self._access.region
                or session.get_config_variable("region")
                or _ANY_REGION,
                endpoint_url=self._access.endpoint or None,
                config=Config(
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_ANSWER_SECONDS,
                    # The library's newer checksums have a form that older servers refuse; the body's MD5
                    # suffices.
                    request_checksum_calculation="when_required",
                    response_checksum_validation="when_required",
                    s3={"payload_signing_enabled": True},
                ),
            )
        return self._made

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Translate the library's errors into ours."""
        from botocore import exceptions as theirs

        try:
            yield
        except theirs.ClientError as error:
            raise self._answered(error, name) from error
        except (
            theirs.NoCredentialsError,
            theirs.PartialCredentialsError,
            theirs.CredentialRetrievalError,
            theirs.ProfileNotFound,
            theirs.TokenRetrievalError,
            theirs.SSOError,
        ) as error:
            raise self._denied(str(error), name) from error
        except theirs.HTTPClientError as error:
            if isinstance(error.kwargs.get("error"), ValueError):
                # Its message contains the header, which may be the session's token.
                what = "a credential has a character that no header takes, as a line's end"
                raise self._denied(what, name) from None
            raise self._error(ClaimStoreLost, str(error), name) from error
        except (
            theirs.ConnectionError,
            theirs.IncompleteReadError,
            OSError,
        ) as error:
            raise self._error(ClaimStoreLost, str(error), name) from error
        except (theirs.BotoCoreError, ValueError) as error:
            # For an invalid endpoint the library raises ValueError.
            raise self._error(ClaimStoreRefused, str(error), name) from error

    def _denied(self, what: str, name: str) -> AqueductError:
        # The client keeps its first credentials; a new client reads files that were corrected since.
        made, self._made = self._made, None
        if made is not None:
            made.close()
        return self._error(ClaimStoreDenied, what, name)

    def _answered(self, error: Any, name: str) -> AqueductError:
        """Return our error for the server's answer."""
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        kind: type[AqueductError] = ClaimStoreRefused
        if code == "NoSuchBucket":
            kind = ClaimBucketGone
        elif code in ("NoSuchKey", "404"):
            kind = ClaimGone
        elif code in _BUSY or code in _DAMAGED:
            kind = ClaimStoreLost
        elif status in _FORBIDDEN or code in _DENIED:
            return self._denied(str(error), name)
        elif status >= _SERVER_FAULT or status in (_TIMED_OUT, _TOO_MANY):
            kind = ClaimStoreLost
        return self._error(kind, str(error), name)
