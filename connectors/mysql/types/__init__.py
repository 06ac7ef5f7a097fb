"""MySQL's column types: a file for each family of them, which has all that the worker knows of it.

Importing this package registers every type.
"""

from connectors.mysql.types import (
    decimals,
    floats,
    geometries,
    integers,
    json_text,
    labels,
    strings,
    temporal,
    vectors,
)

__all__ = [
    "decimals",
    "floats",
    "geometries",
    "integers",
    "json_text",
    "labels",
    "strings",
    "temporal",
    "vectors",
]
