"""Gather, the first step in a decoder: the captured tables of a chunk, its rows, and undecodable rows."""
