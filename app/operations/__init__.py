"""Operations: what an operator may ask of Aqueduct beside running it; commands are shells over them.

Invariant: an operation takes settings and connections as typed parameters and returns frozen values; what it
waits for, it awaits. It raises AqueductErrors. It prints nothing, reads no arguments, and asks no questions:
texts, formats and confirmations belong to the shell that calls it.
"""
