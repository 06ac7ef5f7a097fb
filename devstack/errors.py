"""Errors of the servers' starter that are shown to an operator, each as one line with a remedy.

The docstring of a class is its default message.
"""


class DevstackError(Exception):
    """The servers could not be started."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__)


class MissingSoftwareError(DevstackError):
    """A program is missing, and could not be installed; install it and try again."""


class DownloadError(DevstackError):
    """A download failed; check the network and try again."""


class ChecksumError(DownloadError):
    """A downloaded file is not the one that was pinned; remove .cache and try again."""


class ToolError(DevstackError):
    """A program that was needed for the start failed."""


class ServerError(DevstackError):
    """A server ended, or did not answer, while it was being started."""


class StoppedError(DevstackError):
    """The start was called off."""
