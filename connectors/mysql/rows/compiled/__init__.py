"""Decoders with code generated for one version of one table: from row images straight to JSON text.

Invariant: their output equals that of the readers in ``types``, digit for digit; the tests compare the
two. Generated code never contains input: names and labels are passed to it as constants.
"""
