"""Mappings that cannot be used."""

from __future__ import annotations

from connectors.errors.base import AqueductError


class MappingError(AqueductError):
    """The mapping is not usable."""

    remedy = "Correct its documents; docs/mapping.md describes them."
