"""Decoding in separate processes: portions go to a free decoder, pieces come back in order."""
