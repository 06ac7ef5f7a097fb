"""Encode, the third step: changes, DDL, dead letters and transaction markers as records."""
