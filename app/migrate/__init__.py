"""Configurations of other programs as settings, a mapping, and a report that names every key."""
