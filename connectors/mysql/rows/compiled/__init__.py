"""Decoders with code generated for one version of one table: from row images straight to JSON text.

Invariant: their output is that of the readers in ``types``, digit for digit; the tests compare the
two. No input is ever part of the generated code: names and labels come in as constants.
"""
