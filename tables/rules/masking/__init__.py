"""Masking of columns: the keys of a key file, and the rules that replace values."""
