"""What an operator runs: a file for each group of commands, with its arguments, coroutines and texts.

Invariant: a coroutine takes settings and connections as typed parameters and returns frozen values; all its
waiting is awaited. It raises AqueductErrors. It prints nothing, reads no arguments, and asks no questions:
texts, formats and confirmations belong to the functions ``configure_…`` and ``run_…``, which call it.
"""
