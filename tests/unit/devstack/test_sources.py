from pathlib import Path

from devstack.apt import host_sources
from devstack.sources import Source, moved_to, of_suite, parse_deb822, parse_one_line

DEB822 = """\
# A comment before the first stanza
Types: deb deb-src
# http://snapshot.example/ within a stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.example/security
Suites: bookworm-security
Components: main
Enabled: no

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
"""

MAIN = Source(
    uris=("http://mirror.example/debian",),
    suites=("bookworm", "bookworm-updates"),
    components=("main", "contrib"),
    options=(("Signed-By", "/usr/share/keyrings/archive.gpg"),),
)


def test_deb822_leaves_out_comments_disabled_stanzas_and_source_code() -> None:
    assert parse_deb822(DEB822) == [MAIN]


def test_a_printed_source_reads_back_as_itself() -> None:
    assert parse_deb822(MAIN.deb822()) == [MAIN]


def test_a_key_given_in_full_survives_reading_and_printing() -> None:
    text = (
        "Types: deb\nURIs: https://a.example\nSuites: stable\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEY865UxYJ\n"
        " -----END PGP PUBLIC KEY BLOCK-----\n"
    )
    [source] = parse_deb822(text)
    assert source.options[0][1].splitlines()[-1] == " -----END PGP PUBLIC KEY BLOCK-----"
    assert parse_deb822(source.deb822()) == [source]


def test_one_line_form_takes_options_and_drops_comments_and_source_code() -> None:
    text = """\
# deb http://off.example/debian sid main
deb [ arch=amd64 signed-by=/k.gpg trusted=yes ] http://mirror.example/debian bookworm main  # ours
deb-src http://mirror.example/debian bookworm main
deb\thttp://security.example/debian bookworm-security main contrib
"""
    assert parse_one_line(text) == [
        Source(
            ("http://mirror.example/debian",),
            ("bookworm",),
            ("main",),
            (("Signed-By", "/k.gpg"), ("Trusted", "yes")),
        ),
        Source(("http://security.example/debian",), ("bookworm-security",), ("main", "contrib")),
    ]


def test_a_mirror_list_is_kept_as_it_is() -> None:
    [source] = parse_one_line("deb mirror+file:/etc/apt/mirrors/debian.list trixie main")
    assert source.uris == ("mirror+file:/etc/apt/mirrors/debian.list",)


def test_only_the_main_archive_of_the_release_is_moved_to_another_suite() -> None:
    security = parse_one_line("deb http://mirror.example/security bookworm-security main")
    assert of_suite([*security, MAIN], {"bookworm"}) == [MAIN]
    assert moved_to(MAIN, "unstable").deb822() == (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: unstable\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/archive.gpg\n"
    )


def test_both_forms_are_read_and_files_switched_off_are_not(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://a.example/debian sid main\n")
    (parts / "debian.sources").write_text(DEB822)
    (parts / "other.list.disabled").write_text("deb http://b.example x main\n")
    assert [source.uris[0] for source in host_sources(tmp_path)] == [
        "http://a.example/debian",
        "http://mirror.example/debian",
    ]
