"""Operations: the actions that an operator may request of Aqueduct; commands are shells over them.

Invariant: an operation takes settings and connections as typed parameters and returns frozen
values; all its waiting is awaited. It raises AqueductErrors. It prints nothing, reads no arguments,
and asks no questions: texts, formats and confirmations belong to the shell that calls it.
"""
