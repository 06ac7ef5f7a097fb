"""The Spark job that keeps warehouse tables equal to the MySQL source.

It knows the wire contract (docs/wire.md) and nothing else of Aqueduct.
"""

__version__ = "0.1.0"
