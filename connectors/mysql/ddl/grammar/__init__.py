"""Statements read: from text to the values of ``statement``."""
