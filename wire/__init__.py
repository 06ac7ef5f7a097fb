"""The wire contract of docs/wire.md in code, once for all who write or read topics; standard library only."""
