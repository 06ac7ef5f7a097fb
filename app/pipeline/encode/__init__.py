"""Encode, the third: changes, DDL, dead letters and transaction markers as records."""
