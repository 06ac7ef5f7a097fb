"""MySQL's own mysqlbinlog: the preferred witness of the audit.

Invariant: the program is the server vendor's own, only reads, and its text is read line by line. A password is
in a file that only this user can read, never among the arguments. A failure of the program is an error, never
the end of the binlog.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.audit.errors import ProgramMissing, TruthUnreadable, remedy_of
from app.audit.truth.printed_events import Event, events
from app.audit.truth.witness import WitnessName
from connectors.mysql.server.connection import SourceAddress, Tls
from connectors.mysql.server.facts import read_facts
from connectors.secret import text_of

_PRINT = (
    "--base64-output=DECODE-ROWS",
    "--verbose",
    "--print-table-metadata",
    "--verify-binlog-checksum",
)
_TLS = {
    Tls.DISABLED: "DISABLED",
    Tls.PREFERRED: "PREFERRED",
    Tls.REQUIRED: "REQUIRED",
    Tls.VERIFY_CA: "VERIFY_CA",
    Tls.VERIFY_IDENTITY: "VERIFY_IDENTITY",
}
_LONGEST_COMPLAINT = 500


def program(given: str | None = None) -> tuple[str, ...]:
    """Return the command that runs mysqlbinlog, or the given command; raise ProgramMissing if it is not found.

    The program is looked up on the PATH, then in the folder of this Python, as in a virtual environment.
    """
    words = tuple(shlex.split(given)) if given else ("mysqlbinlog",)
    beside = str(Path(sys.executable).parent)
    found = shutil.which(words[0]) or shutil.which(words[0], path=beside)
    if found is None:
        raise ProgramMissing(f"{words[0]} is not found")
    return (found, *words[1:])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBinlog:
    """The binlog as a running server sends it to replicas."""

    address: SourceAddress
    server_uuid: str
    names: tuple[str, ...]
    program: tuple[str, ...]

    @classmethod
    def of(cls, address: SourceAddress, program: tuple[str, ...]) -> ServerBinlog:
        """Read the server's list of files; raise SourceLost or SourceRefused if the server does not answer."""
        facts = read_facts(address)
        if facts.is_mariadb:
            raise TruthUnreadable(
                "the source is a MariaDB, whose binlog mysqlbinlog does not print",
                source=address,
                remedy="This audit reads MySQL 5.7 and newer.",
            )
        names = tuple(name for name, _ in facts.binlogs)
        if not names:
            raise TruthUnreadable("the server lists no binlog files", source=address)
        return cls(address=address, server_uuid=facts.server_uuid, names=names, program=program)

    def files(self) -> Sequence[str]:
        return self.names

    @property
    def name(self) -> WitnessName:
        return WitnessName.MYSQLBINLOG

    def events(self, first: str) -> Generator[Event]:
        with closing(self.lines(first)) as lines:
            yield from events(lines)

    def lines(self, first: str) -> Generator[bytes]:
        """Yield the program's lines; closing the generator ends the program.

        Each file is copied before it is printed: a server ends a connection that does not take events for
        `net_write_timeout`, and the program leaves this timeout at the server's default.
        """
        with tempfile.TemporaryDirectory(prefix="aqueduct-audit-") as folder:
            name: str | None = first
            while name is not None:
                path, following = Path(folder, name), self._after(name)
                self._copy(name, folder)
                if following is None and (following := self._after(name)) is not None:
                    # The server may have added to this file before it began the next file.
                    self._copy(name, folder)
                copied = BinlogFiles(
                    paths=(path,), server_uuid=self.server_uuid, program=self.program
                )
                yield from copied.lines(name)
                path.unlink()
                name = following

    def _copy(self, name: str, folder: str) -> None:
        Path(folder, name).unlink(missing_ok=True)
        address = self.address
        more = [
            "--read-from-remote-server",
            f"--host={address.host}",
            f"--port={address.port}",
            f"--user={address.user}",
            f"--ssl-mode={_TLS[address.tls]}",
            *([f"--ssl-ca={address.tls_ca}"] if address.tls_ca else []),
            "--get-server-public-key",
            "--verify-binlog-checksum",
            "--raw",
            f"--result-file={folder}/",
            name,
        ]
        with _secret(text_of(address.password)) as file:
            for _ in _run([*self.program, f"--defaults-file={file}", *more]):
                pass

    def _after(self, name: str) -> str | None:
        """The next file, which the server may have begun meanwhile; None after the last."""
        names = [one for one, _ in read_facts(self.address).binlogs]
        if name not in names:
            raise TruthUnreadable(f"{name} was purged while it was read", source=self.address)
        return next(iter(names[names.index(name) + 1 :]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFiles:
    """Binlog files on disk, the oldest first, from a stopped server or a backup."""

    paths: tuple[Path, ...]
    server_uuid: str
    program: tuple[str, ...]

    def files(self) -> Sequence[str]:
        return [path.name for path in self.paths]

    @property
    def name(self) -> WitnessName:
        return WitnessName.MYSQLBINLOG

    def events(self, first: str) -> Generator[Event]:
        with closing(self.lines(first)) as lines:
            yield from events(lines)

    def lines(self, first: str) -> Generator[bytes]:
        """Yield the program's lines; closing the generator ends the program."""
        names = [path.name for path in self.paths]
        for path in self.paths[names.index(first) :]:
            # The program does not print the name of the file, and a file that ends in a crash names no next
            # file.
            yield (
                b"#700101  0:00:00 server id 1  end_log_pos 0 \tRotate to %s  pos: 4\n"
                % path.name.encode()
            )
            yield from _run([*self.program, "--no-defaults", *_PRINT, str(path)])


@contextmanager
def _secret(password: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", prefix="aqueduct-audit-", suffix=".cnf") as file:
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        file.write(f'[client]\npassword="{escaped}"\n')
        file.flush()
        yield file.name


def _run(command: list[str]) -> Iterator[bytes]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(  # noqa: S603 - the program that its user has named, and no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**kept, "TZ": "UTC", "LC_ALL": "C"},
            start_new_session=True,
        )
        assert process.stdout is not None
        is_read = False
        try:
            yield from process.stdout
            is_read = True
        finally:
            process.stdout.close()
            if not is_read:
                process.kill()
            code = process.wait()
        if code != 0:
            complaints.seek(0)
            text = " ".join(complaints.read().decode(errors="replace").split())
            complaint = text[-_LONGEST_COMPLAINT:] or "it printed no error"
            raise TruthUnreadable(
                f"mysqlbinlog exited with code {code}: {complaint}", remedy=remedy_of(complaint)
            )
