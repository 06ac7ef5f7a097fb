"""Statements that change tables, on real servers and on the model of them."""
