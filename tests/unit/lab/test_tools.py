# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the cluster's programs come from, and what is said where they come from nowhere."""

from __future__ import annotations

import copy
import hashlib
import http.server
import io
import tarfile
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, gobuild, release, tools
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

PROGRAM = "#!/bin/sh\necho 'thing version v1.2.3'\n"


@pytest.fixture
def settings() -> dict[str, t.Any]:
    made = copy.deepcopy(config.versions())
    made["tools"] = {
        "thing": {
            "version": "v1.2.3",
            "on_path": ["1.2."],
            "release": "{site}/thing-{version}-{arch}.tar.gz",
            "sums": "{site}/sums",
            "ldflags": ["example.org/thing.version={version}"],
            "programs": {
                "thing1": {"package": "example.org/thing/cmd/thing", "says": ["version"], "elsewhere": "thing"},
                "other": {"package": "example.org/thing/cmd/other"},
            },
        }
    }
    made["releases"] = {"site": ""}
    return made


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> config.Places:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.delenv("LAB_RELEASES_SITE", raising=False)
    monkeypatch.setattr(tools, "MODULES", tmp_path / "go")
    monkeypatch.setattr(gobuild, "toolchain", lambda: None)
    monkeypatch.setattr(tools.platform, "machine", lambda: "x86_64")
    module = tmp_path / "go/thing"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module thing\n")
    (module / "go.sum").write_text("")
    return config.places({"HOME": str(tmp_path)})


def program(path: Path, text: str = PROGRAM) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Path]:
    directory = tmp_path / "site"
    directory.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: t.Any) -> None:
            super().__init__(*arguments, directory=str(directory))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("LAB_RELEASES_SITE", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield directory
        server.shutdown()
        thread.join(10)


def publish(site: Path, names: t.Sequence[str] = ("thing", "other"), digest: str = "") -> None:
    packed = site / "thing-v1.2.3-amd64.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"linux-amd64/{name}")
            member.size = len(PROGRAM)
            archive.addfile(member, io.BytesIO(PROGRAM.encode()))
    digest = digest or hashlib.sha256(packed.read_bytes()).hexdigest()
    (site / "sums").write_text(f"{digest}  {packed.name}\n")


def test_every_program_is_in_the_table_once() -> None:
    result = tools.builds(config.versions())
    names = [name for build in result.values() for name in build.programs]
    assert len(names) == len(set(names))
    assert {"etcd", "kube-apiserver", "kubectl", "kubelet", "kubeadm", "helm3", "helm4"} < set(names)
    assert result["kubelet"].version == result["kubernetes"].version
    for build in result.values():
        assert all("{" not in flag for flag in build.ldflags)
        text = (tools.MODULES / build.module / "go.mod").read_text()
        # The one of our own tells its version itself.
        assert (
            f" {build.version}" in text
            or f'"pause {build.version[1:]}' in (tools.MODULES / "pause/main.go").read_text()
        )
        for binary in build.programs.values():
            assert binary.package in text


def test_every_release_has_an_address() -> None:
    settings = config.versions()
    sites = release.bases(settings, {"LAB_RELEASES_HELM": "http://mirror.example/helm/"})
    assert sites["helm"] == "http://mirror.example/helm"
    for build in tools.builds(settings).values():
        for binary in build.programs.values():
            url = release.address(build.release, build, binary, "amd64", sites)
            assert url.startswith("http") or not build.release
            assert bool(url) == bool(release.address(build.sums, build, binary, "amd64", sites))
    helm = tools.build_of(settings, "helm3")
    url = release.address(helm.release, helm, helm.programs["helm3"], "arm64", sites)
    assert url == f"http://mirror.example/helm/helm-{helm.version}-linux-arm64.tar.gz"
    assert release.address(helm.release, helm, helm.programs["helm3"], "arm64", {**sites, "helm": ""}) == ""


def test_the_cache_follows_the_sources(places: config.Places, settings: dict[str, t.Any], tmp_path: Path) -> None:
    build = tools.builds(settings)["thing"]
    before = build.key()
    assert before.startswith("thing-v1.2.3-")
    (tmp_path / "go/thing/go.sum").write_text("example.org/other v1.0.0 h1:x\n")
    assert build.key() != before


def test_a_program_of_path(places: config.Places, settings: dict[str, t.Any], tmp_path: Path) -> None:
    there = program(tmp_path / "bin/thing")
    assert tools.get("thing1", places, settings) == there


def test_the_cache_comes_before_path(places: config.Places, settings: dict[str, t.Any], tmp_path: Path) -> None:
    program(tmp_path / "bin/thing")
    cached = program(places.cache / "tools" / tools.builds(settings)["thing"].key() / "thing1")
    assert tools.get("thing1", places, settings) == cached


def test_no_way(places: config.Places, settings: dict[str, t.Any], tmp_path: Path) -> None:
    there = program(tmp_path / "bin/thing", "#!/bin/sh\necho v1.1.9\n")
    assert message_of(tools.Unavailable, tools.get, "thing1", places, settings) == (
        "thing1 v1.2.3 is to be had in no way:\n"
        f"  - PATH: {there} is version 1.1.9, wanted is 1.2.x\n"
        "  - release: the site is switched off\n"
        "  - Go: no `go` in PATH nor in /usr/local/go/bin"
    )
    assert not list((places.cache / "tools").glob("thing-*"))


def test_a_program_that_nobody_knows(places: config.Places, settings: dict[str, t.Any]) -> None:
    with pytest.raises(LabError, match=r"\Athe lab has no program 'thing'; it has: other, thing1\Z"):
        tools.get("thing", places, settings)


def test_an_architecture_without_programs(
    places: config.Places, settings: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.platform, "machine", lambda: "riscv64")
    with pytest.raises(tools.Unavailable, match="this machine is riscv64"):
        tools.get("other", places, settings)


def test_a_release(places: config.Places, settings: dict[str, t.Any], site: Path) -> None:
    publish(site)
    binary = tools.get("thing1", places, settings)
    assert binary.read_text() == PROGRAM
    assert binary.stat().st_mode & 0o111
    # What came with it is kept, and nothing else.
    assert sorted(path.name for path in binary.parent.iterdir()) == ["other", "thing1"]
    (site / "sums").unlink()
    assert tools.get("other", places, settings) == binary.parent / "other"


# sums, names in the archive; what is said
BAD_RELEASES = [
    ("0" * 64, ("thing", "other"), "has the sum"),
    ("nothing", ("thing", "other"), "the published sums have none of thing-v1.2.3-amd64.tar.gz"),
    ("", ("thing",), "release: not in the archive: other"),
]


@pytest.mark.parametrize(("digest", "names", "said"), BAD_RELEASES)
def test_a_release_that_is_not_used(
    places: config.Places, settings: dict[str, t.Any], site: Path, digest: str, names: tuple[str, ...], said: str
) -> None:
    publish(site, names, digest)
    assert said in message_of(tools.Unavailable, tools.get, "thing1", places, settings)
    assert not list((places.cache / "tools").glob("thing-*"))


def test_a_release_of_another_version(places: config.Places, settings: dict[str, t.Any], site: Path) -> None:
    settings["tools"]["thing"]["programs"]["thing1"]["says"] = []
    settings["tools"]["thing"].update(version="v1.2.4", release="{site}/thing-v1.2.3-{arch}.tar.gz")
    publish(site)
    with pytest.raises(tools.Unavailable, match=r"thing1 should be v1\.2\.4 and says 1\.2\.3"):
        tools.get("thing1", places, settings)


def test_built_by_go(
    places: config.Places, settings: dict[str, t.Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in that makes what it is asked for, as `go build -o DIRECTORY/ PACKAGE...` does.
    leftover = places.cache / "tools/.thing.killed"
    leftover.mkdir(parents=True)
    script = """#!/bin/sh
echo "$@" >>'%s'
while [ "$1" != -o ]; do shift; done
for package in "$3" "$4"; do cp '%s' "$2/${package##*/}"; done
"""
    calls = tmp_path / "calls"
    go = program(tmp_path / "sdk/go", script % (calls, program(tmp_path / "source")))
    monkeypatch.setattr(gobuild, "toolchain", lambda: str(go))
    binary = tools.get("thing1", places, settings)
    assert tools.get("other", places, settings).parent == binary.parent
    assert len(calls.read_text().splitlines()) == 1
    assert not leftover.exists()
    assert f"-C {tmp_path}/go/thing" in calls.read_text()
    assert "-ldflags=-s -w -X example.org/thing.version=v1.2.3" in calls.read_text()
    go.write_text("#!/bin/sh\necho no such package\nexit 1\n")
    (tmp_path / "go/thing/go.sum").write_text("changed\n")
    with pytest.raises(tools.Unavailable, match=r"(?s)Go: building thing: .* ended with 1; .*no such package"):
        tools.get("thing1", places, settings)


# package, name of the file
FILES = [
    ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    ("go.etcd.io/etcd/server/v3", "server"),
    ("example.org/vault", "vault"),
    ("example.org/x/v2x", "v2x"),
]


@pytest.mark.parametrize(("package", "name"), FILES)
def test_what_go_calls_a_program(package: str, name: str) -> None:
    assert gobuild.file_name(package) == name


# published text, sum of "file"
SUMS = [
    ("a" * 64, "a" * 64),
    ("a" * 64 + "\n", "a" * 64),
    (f"{'b' * 64}  other\n{'a' * 64}  file\n", "a" * 64),
    (f"{'a' * 64} *dist/file\n", "a" * 64),
    (f"{'a' * 64}  afile\n", None),
    ("<html>not found</html>", None),
    ("", None),
    ("a" * 63, None),
]


@pytest.mark.parametrize(("text", "digest"), SUMS)
def test_published_sums(text: str, digest: str | None) -> None:
    if digest:
        assert release.sum_of(text, "file") == digest
    else:
        with pytest.raises(LabError):
            release.sum_of(text, "file")


def test_a_program_of_our_own_is_built_again_when_it_changes(settings: dict[str, t.Any], places: config.Places) -> None:
    (made,) = tools.builds(settings).values()
    module = tools.MODULES / made.module
    module.mkdir(parents=True, exist_ok=True)
    for name in ("go.mod", "go.sum"):
        (module / name).write_text("")
    before = made.key()
    (module / "main.go").write_text("package main\n")
    assert made.key() != before
