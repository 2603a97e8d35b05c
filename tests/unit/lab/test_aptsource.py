# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab's packages come from: this machine's apt sources, turned to the lab's release."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.tests.lab import aptsource
from ansible_collections.rdmaops.gpu_fabric.tests.lab.aptsource import Entry, Sources
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError

# text, entries
ONE_LINE: list[tuple[str, list[Entry]]] = [
    ("deb http://m/debian trixie main contrib", [Entry("http://m/debian", "trixie", ("main", "contrib"))]),
    ("deb [arch=amd64 signed-by=/k.gpg] http://m/debian sid main", [Entry("http://m/debian", "sid", ("main",))]),
    ("deb http://m/debian sid main # the newest", [Entry("http://m/debian", "sid", ("main",))]),
    ("deb-src http://m/debian trixie main", []),
    ("# deb http://m/debian trixie main", []),
    ("deb http://m/debian ./", []),
    ("", []),
]

# text, entries
DEB822: list[tuple[str, list[Entry]]] = [
    (
        "Types: deb deb-src\n# a note\nURIs: http://m/debian\nSuites: trixie trixie-updates\nComponents: main\n",
        [Entry("http://m/debian", "trixie", ("main",)), Entry("http://m/debian", "trixie-updates", ("main",))],
    ),
    (
        "Types: deb\nURIs:\n http://a/debian\n http://b/debian\nSuites: sid\nComponents: main\nSigned-By:\n -----BEGIN\n",
        [Entry("http://a/debian", "sid", ("main",)), Entry("http://b/debian", "sid", ("main",))],
    ),
    ("Types: deb\nURIs: http://m\nSuites: sid\nComponents: main\nEnabled: no\n", []),
    ("Types: deb-src\nURIs: http://m\nSuites: sid\nComponents: main\n", []),
    (
        "types: deb\nuris: http://a\nsuites: x\ncomponents: main\n\nTypes: deb\nURIs: http://b\nSuites: y\n",
        [Entry("http://a", "x", ("main",)), Entry("http://b", "y", ())],
    ),
]


@pytest.mark.parametrize(("text", "entries"), ONE_LINE)
def test_one_line_format(text: str, entries: list[Entry]) -> None:
    assert aptsource.parse_list(text) == entries


@pytest.mark.parametrize(("text", "entries"), DEB822)
def test_deb822_format(text: str, entries: list[Entry]) -> None:
    assert aptsource.parse_deb822(text) == entries


@given(st.text())
def test_no_text_stops_the_parsers(text: str) -> None:
    assert isinstance(aptsource.parse_list(text), list)
    assert isinstance(aptsource.parse_deb822(text), list)
    assert isinstance(aptsource.parse_options(text), dict)


MAIN = ("main",)

# entries, codename, archive, security
CHOICES: list[tuple[list[Entry], str, str, str]] = [
    (
        [Entry("http://m/debian/", "bookworm", MAIN), Entry("http://m/security", "bookworm-security", MAIN)],
        "bookworm",
        "http://m/debian",
        "http://m/security",
    ),
    ([Entry("https://cloud/apt", "tool", MAIN), Entry("http://m/debian", "trixie", MAIN)], "trixie", "http://m/debian", ""),
    ([Entry("http://m/debian", "stable", MAIN)], "trixie", "http://m/debian", ""),
    ([Entry("http://m/debian", "trixie", ("contrib",))], "trixie", "", ""),
    ([Entry("file:/srv/debian", "trixie", MAIN), Entry("http://m/debian", "trixie", MAIN)], "trixie", "http://m/debian", ""),
    ([], "", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "codename", "archive", "security"), CHOICES)
def test_addresses_of_a_release(entries: list[Entry], codename: str, archive: str, security: str) -> None:
    assert aptsource.addresses(entries, codename) == (archive, security)


def test_options_that_go_to_the_guest() -> None:
    dump = (
        'Acquire "";\nAcquire::Check-Valid-Until "false";\nAcquire::http::Proxy "http://localhost:3142";\n'
        'Acquire::http::Proxy::internal.example "DIRECT";\nAcquire::https::CAInfo "/etc/ca.pem";\n'
        'Acquire::http::Proxy-Auto-Detect "/usr/bin/find-proxy";\nDPkg::Post-Invoke:: "rm -rf /";\n'
    )
    options = aptsource.parse_options(dump)
    assert options == {
        "Acquire::Check-Valid-Until": "false",
        "Acquire::http::Proxy": "http://localhost:3142",
        "Acquire::http::Proxy::internal.example": "DIRECT",
    }
    guest = Sources("http://127.0.0.1:8080/debian", "http://localhost.example/security", options).for_guest()
    assert guest.archive == "http://10.0.2.2:8080/debian"
    assert guest.security == "http://localhost.example/security"
    assert guest.options["Acquire::http::Proxy"] == "http://10.0.2.2:3142"


def machine(root: Path, os_release: str, sources: str) -> Path:
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    (root / "etc/os-release").write_text(os_release)
    (root / "etc/apt/sources.list.d/all.sources").write_text(sources)
    (root / "etc/apt/sources.list.d/old.sources.save").write_text(sources.replace("http://m", "http://old"))
    return root


STANZA = "Types: deb\nURIs: http://m/debian\nSuites: bookworm\nComponents: main\n"


BOTH = STANZA + "\nTypes: deb\nURIs: http://m/security\nSuites: bookworm-security\nComponents: main\n"
SETTINGS = {"debian": {"suite": "trixie"}}


def default(suite: str) -> list[Entry]:
    return [Entry("http://default/debian", suite, MAIN), Entry("http://default/security", f"{suite}-security", MAIN)]


def without_default(suite: str) -> list[Entry]:
    raise AssertionError(f"the default for {suite} was asked for")


# os-release, sources, archive, security
MACHINES = [
    ('ID=debian\nVERSION_CODENAME="bookworm"\n', STANZA, "http://m/debian", "http://default/security"),
    ("ID=debian\nVERSION_CODENAME=trixie\n", STANZA, "http://default/debian", "http://default/security"),
    ("ID=ubuntu\nVERSION_CODENAME=bookworm\n", BOTH, "http://default/debian", "http://default/security"),
    ("", "", "http://default/debian", "http://default/security"),
]


@pytest.mark.parametrize(("os_release", "sources", "archive", "security"), MACHINES)
def test_what_the_machine_does_not_name_is_the_default(
    tmp_path: Path, os_release: str, sources: str, archive: str, security: str
) -> None:
    chosen = aptsource.of_this_machine(SETTINGS, machine(tmp_path, os_release, sources), default)
    assert (chosen.archive, chosen.security) == (archive, security)


def test_the_default_is_not_asked_for_without_need(tmp_path: Path) -> None:
    root = machine(tmp_path, "ID=debian\nVERSION_CODENAME=bookworm\n", BOTH)
    chosen = aptsource.of_this_machine(SETTINGS, root, without_default)
    assert (chosen.archive, chosen.security) == ("http://m/debian", "http://m/security")


@pytest.mark.parametrize("entries", [[], [Entry("http://default/debian", "trixie", MAIN)]])
def test_no_address_at_all(tmp_path: Path, entries: list[Entry]) -> None:
    root = machine(tmp_path, "", "")
    with pytest.raises(LabError, match="name an archive and a security archive for trixie"):
        aptsource.of_this_machine(SETTINGS, root, lambda suite: entries)


def test_no_mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="mmdebstrap, which knows Debian's archive, cannot be run"):
        aptsource.of_this_machine(SETTINGS, machine(tmp_path, "", ""))


def test_sources_of_the_image() -> None:
    settings: dict[str, t.Any] = {
        "debian": {"suite": "trixie", "components": ["main"], "keyring": "/k.gpg"},
        "kernel": {"suite": "trixie-backports"},
    }
    sources = Sources("http://m/debian", "http://m/security", {})
    assert aptsource.one_line(settings, sources).splitlines() == [
        "deb [signed-by=/k.gpg] http://m/debian trixie main",
        "deb [signed-by=/k.gpg] http://m/debian trixie-updates main",
        "deb [signed-by=/k.gpg] http://m/security trixie-security main",
        "deb [signed-by=/k.gpg] http://m/debian trixie-backports main",
    ]
    read_back = aptsource.parse_deb822(aptsource.deb822(settings, sources))
    assert {(entry.uri, entry.suite) for entry in read_back} == {
        ("http://m/debian", "trixie"),
        ("http://m/debian", "trixie-updates"),
        ("http://m/debian", "trixie-backports"),
        ("http://m/security", "trixie-security"),
    }
