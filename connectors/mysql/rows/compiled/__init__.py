"""Decoders whose code is generated for one version of one table: from row images straight to JSON text.

The law: what they write is what the readers of ``values`` would give, digit for digit; the tests hold the two
against each other. No input is ever part of the generated code: names and labels come in as constants.
"""
