"""The steps of a change, in order: capture, decoders, gather, number, encode, publish."""
