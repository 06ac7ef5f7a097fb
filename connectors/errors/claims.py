"""Why the value of a record that is too large cannot be kept, or be had again.

The law: the store is named with the bucket or path and the object, and never with a secret; whatever somebody
may mend at the store itself is tried again.
"""

from __future__ import annotations

from connectors.errors.base import AqueductError, Retry


class ClaimStoreLost(AqueductError):
    """The claim store did not keep or give the value of a record that is too large."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct tries again by itself; check claim_check_path: a folder must be mounted, may be written to, "
        "and has room; of an S3 store, the endpoint must answer."
    )


class ClaimStoreDenied(AqueductError):
    """The claim store does not let us in."""

    retry = Retry.TIMED
    remedy = (
        "Aqueduct tries again by itself; check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE or the "
        "machine's role), that they may s3:PutObject and s3:GetObject below claim_check_path, and this "
        "machine's clock. Where they have expired, renew them: those in files are read anew, those in the "
        "environment (AWS_SESSION_TOKEN) with the worker's next start."
    )


class ClaimBucketGone(AqueductError):
    """The bucket of the claim store is not there."""

    remedy = (
        "Check claim_check_path and claim_check_s3.endpoint. If the bucket was removed, the values that "
        "published pointers name went with it: bring them back, or make the bucket anew; then restart this "
        "destination."
    )


class ClaimStoreRefused(AqueductError):
    """The claim store does not take what was sent."""

    remedy = (
        "Check claim_check_path, claim_check_s3.region and claim_check_s3.endpoint, or AWS_ENDPOINT_URL_S3: "
        "an endpoint is http:// or https:// and a host, in whose name no _ may be; then restart this "
        "destination."
    )


class ClaimGone(AqueductError):
    """The claim store does not hold a value to which a record points."""

    remedy = "Bring it back from a copy of the store; claims must live as long as the records of their topic."
