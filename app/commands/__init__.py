"""What an operator asks of Aqueduct beside running it: one file for each command of ``python -m app``.

The law: a command's module is imported when that command is called, and no other's; so each needs only what it
uses.
"""
