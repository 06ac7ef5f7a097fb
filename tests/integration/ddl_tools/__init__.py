"""Tests of features built on definitions, on real servers: witnesses, online schema changes, impact."""
