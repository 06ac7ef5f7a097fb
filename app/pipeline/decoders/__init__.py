"""Decoding in processes of its own: portions go to a free decoder, pieces come back in order."""
