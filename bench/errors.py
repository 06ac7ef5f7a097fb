"""Errors of a benchmark; each message states what failed, where, and what to do."""


class BenchError(Exception):
    """The benchmark could not continue."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)


class RunFailed(BenchError):
    """A peer ended, made no progress, or wrote something other than the workload."""


class PeerMissing(BenchError):
    """What a peer needs to be built or started is not on this machine."""
