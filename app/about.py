"""What this program is called and which version of it this is."""

from __future__ import annotations

__version__ = "0.1.0"
