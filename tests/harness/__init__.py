"""Harness of tests with real servers: workers, SQL, topics, and waiting."""
