from pathlib import Path

import pytest

from devstack.errors import ChecksumError, DownloadError
from devstack.jars import LOCKS, OPTIONAL_LOCKS, Jar, ivy_module, ivy_settings, parse_lock, verify
from devstack.maven import covers_central, mirror, proxy_options
from devstack.seal import sha256

HASH = "ab" * 32


def test_a_lock_line_names_one_file_with_or_without_a_classifier() -> None:
    text = (
        f"# the class path\n\nio.x:a-b_2.13:1.0.Final {HASH}  # why\nio.x:c:2:linux-x86_64 {HASH}\n"
    )
    plain, classified = parse_lock(text)
    assert plain == Jar("io.x", "a-b_2.13", "1.0.Final", "", HASH)
    assert plain.file_name == "a-b_2.13-1.0.Final.jar"
    assert classified.file_name == "c-2-linux-x86_64.jar"


@pytest.mark.parametrize("line", ["io.x:a:1", f"io.x:a {HASH}", f"io.x:a:1 {HASH[:-1]}", "x"])
def test_a_lock_line_without_a_whole_hash_is_refused_by_its_number(line: str) -> None:
    with pytest.raises(DownloadError, match="line 2 "):
        parse_lock(f"# first\n{line}\n")


@pytest.mark.parametrize("lock", (LOCKS | OPTIONAL_LOCKS).values())
def test_the_locks_of_this_project_name_no_file_twice(lock: Path) -> None:
    names = [jar.file_name for jar in parse_lock(lock.read_text())]
    assert names
    assert len(names) == len(set(names))


def test_a_jar_with_another_checksum_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a-1.jar"
    file.write_bytes(b"not what was pinned")
    verify(file, Jar("io.x", "a", "1", "", sha256(file)))
    with pytest.raises(ChecksumError, match=r"a-1\.jar has SHA-256 .* is pinned"):
        verify(file, Jar("io.x", "a", "1", "", HASH))


def test_ivy_is_asked_for_just_the_pinned_files() -> None:
    module = ivy_module([Jar("io.x", "a", "1", "linux", HASH)])
    assert 'org="io.x" name="a" rev="1" transitive="false"' in module
    assert 'm:classifier="linux"' in module


def test_a_mirror_replaces_the_address_that_ivy_knows() -> None:
    assert "root=" not in ivy_settings(Path("c"), None)
    assert 'root="http://m.example/?a&amp;b"' in ivy_settings(Path("c"), "http://m.example/?a&b")


def test_the_mirror_of_the_central_repository_is_read_from_mavens_settings(tmp_path: Path) -> None:
    settings = tmp_path / ".m2/settings.xml"
    settings.parent.mkdir()
    settings.write_text("""\
<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
<mirror><mirrorOf>other</mirrorOf><url>http://no.example</url></mirror>
<mirror><mirrorOf>*,!inside</mirrorOf><url> http://yes.example/maven </url></mirror>
</mirrors></settings>""")
    assert mirror(tmp_path) == "http://yes.example/maven"
    assert mirror(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("mirror_of", "expected"),
    [("*", True), ("central", True), ("external:*", True), ("*,!central", False), ("o", False)],
)
def test_a_mirror_covers_the_central_repository_or_not(mirror_of: str, *, expected: bool) -> None:
    assert covers_central(mirror_of) is expected


def test_proxies_of_the_environment_reach_java() -> None:
    options = proxy_options({"HTTPS_PROXY": "http://p.example:3128", "http_proxy": ""})
    assert options == ["-Dhttps.proxyHost=p.example", "-Dhttps.proxyPort=3128"]
