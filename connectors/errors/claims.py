"""The claim-check store: values of records too large for their topic that cannot be stored or read.

Invariant: a message names the bucket or path and the object, and never a secret; what can be repaired at the
store itself is retried.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class ClaimStoreLost(AqueductError):
    """The claim store did not store or return the value of a record too large for its topic."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check claim_check_path: a folder must be mounted, writable and have free "
        "space; the endpoint of an S3 store must answer."
    )


class ClaimStoreDenied(AqueductError):
    """The claim store denied access."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct retries by itself; check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE or the "
        "machine's role), that they allow s3:PutObject and s3:GetObject below claim_check_path, and this "
        "machine's clock. Renew them if they have expired: files are read again, the environment "
        "(AWS_SESSION_TOKEN) only at the worker's next start."
    )


class ClaimBucketGone(AqueductError):
    """The bucket of the claim store does not exist."""

    remedy = (
        "Check claim_check_path and claim_check_s3.endpoint. If the bucket was deleted, so were the "
        "values that published records point to: restore them, or create the bucket again; then restart this "
        "destination."
    )


class ClaimStoreRefused(AqueductError):
    """The claim store rejected a request."""

    remedy = (
        "Check claim_check_path, claim_check_s3.region and claim_check_s3.endpoint, or AWS_ENDPOINT_URL_S3: "
        "an endpoint is http:// or https:// and a host name without underscores; then restart this "
        "destination."
    )


class ClaimGone(AqueductError):
    """The claim store lacks a value that a record points to."""

    remedy = "Restore it from a copy of the store; claims must be kept as long as the records of their topic."
