"""Mappings that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.errors.base import AqueductError, Faults


class MappingError(AqueductError):
    """The mapping is not usable."""

    remedy = "Correct its documents; docs/mapping.md describes them."

    faults: tuple[str, ...] = ()
    """Each fault with its entry, if there is a list."""

    @classmethod
    def listed(cls, faults: Iterable[str]) -> MappingError:
        """The error of a mapping with these faults."""
        found = tuple(faults)
        error = cls(Faults.listed("these parts must change", found))
        error.faults = found
        return error


class MappingConflict(AqueductError):
    """Another author has stored a version of the mapping since the one that yours was made from."""

    remedy = (
        "See what it changed with `python -m app mapping history` and `mapping diff`, add your change to "
        "the newest version, and store that."
    )
