"""What is demanded of the decoder, and how it says that it was not kept."""

from __future__ import annotations

import struct

from connectors.errors import AqueductError

KIN = (AqueductError, IndexError, ValueError, KeyError, struct.error)
"""What a function of bytes may raise; who calls it makes a MalformedEvent of it."""


class Fault(Exception):
    """What must hold does not."""


def demand(holds: object, what: str) -> None:
    """Raise a Fault unless it holds."""
    if not holds:
        raise Fault(what)
