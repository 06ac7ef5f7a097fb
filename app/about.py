"""What this program is called and which version of it this is."""

from __future__ import annotations

import uuid

__version__ = "0.1.0"
PROCESS = uuid.uuid4().hex[:12]
"""This process, among all that ever have the same worker id."""
