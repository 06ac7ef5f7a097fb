"""The operator's commands: one file for each command of ``python -m app``.

Invariant: a command's module is imported when that command is called, and no other's; so each needs
only what it uses.
"""
