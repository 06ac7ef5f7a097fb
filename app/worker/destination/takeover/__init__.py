"""Takeover, the start of a run: journal, epoch claim, cursor and schema history, all verified."""
