"""The real servers of the statements' tests, which these share where both are run."""

from tests.integration.ddl.conftest import pytest_collection_modifyitems, servers

__all__ = ["pytest_collection_modifyitems", "servers"]
