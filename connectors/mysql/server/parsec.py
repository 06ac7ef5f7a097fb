"""MariaDB's authentication plugin ``parsec``, which PyMySQL does not have.

Invariant: the password leaves the process only as a signature of both sides' random bytes.
Source: MariaDB's plugin/auth_parsec/server_parsec.cc, and its documentation of the plugin.
"""

from __future__ import annotations

import os
from hashlib import pbkdf2_hmac
from typing import Any, Final

import pymysql
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_RANDOM_BYTES: Final = 32
_SALT_BYTES: Final = 18
_LEAST_ROUNDS_LOG2: Final = 10
_MOST_ROUNDS_LOG2: Final = 10 + 3
"""MariaDB's own client refuses more, too, because a server could make a client compute for hours."""


class Parsec:
    """A handler for PyMySQL's ``auth_plugin_map``."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        """Answer the server's random bytes, which ``packet`` contains; return the server's verdict."""
        server_random = packet.read_all()[:_RANDOM_BYTES]
        algorithm, rounds, salt = self._salt()
        rounds_log2 = _LEAST_ROUNDS_LOG2 + rounds
        if (
            len(server_random) < _RANDOM_BYTES
            or algorithm != b"P"
            or len(salt) < _SALT_BYTES
            or rounds_log2 > _MOST_ROUNDS_LOG2
        ):
            raise pymysql.OperationalError(
                2059, "the server's plugin parsec sent what it does not document"
            )
        seed = pbkdf2_hmac("sha512", self._connection.password, salt, 1 << rounds_log2, 32)
        client_random = os.urandom(_RANDOM_BYTES)
        signature = Ed25519PrivateKey.from_private_bytes(seed).sign(server_random + client_random)
        self._connection.write_packet(client_random + signature)
        return self._answer()

    def _salt(self) -> tuple[bytes, int, bytes]:
        """Read how to derive the key from the password: algorithm, log2 of the rounds above the least, salt."""
        self._connection.write_packet(b"")
        answer = self._answer().get_all_data()
        # Some servers send the head byte of additional authentication data first.
        content = answer[1:] if answer[:1] == b"\x01" else answer
        return content[:1], content[1], content[2 : 2 + _SALT_BYTES]

    def _answer(self) -> Any:
        packet = self._connection._read_packet()
        packet.check_error()
        return packet
