"""Troubles of single tables, each ended by the commands that are printed for it: `make crash SUITE=day`."""
