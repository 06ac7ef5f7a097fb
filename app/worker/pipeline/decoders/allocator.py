"""The C library's allocator, tuned for a process that needs the same memory again and again.

By default glibc returns memory to the system whenever a large block is freed, and takes it back page
by page for the next portion: a tenth of a decoder's CPU time, measured on rows of 900 bytes.
Source: mallopt(3).
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Free memory that is kept; what exceeds it is returned to the system."""
_PAD_BYTES: Final = 4 * 1024 * 1024
_MMAP_BYTES: Final = 32 * 1024 * 1024
"""From this size on, memory is the system's again once it is freed. glibc accepts no more."""


def keep_memory() -> bool:
    """Keep freed memory for the next portion; False where the C library has no such settings."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    chosen = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, _PAD_BYTES),
        (_M_MMAP_THRESHOLD, _MMAP_BYTES),
    )
    return all(mallopt(name, size) == 1 for name, size in chosen)
