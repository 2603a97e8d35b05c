# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""CNI plugins from real archives and files; what is somebody else's stays."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._cni.install import (
    InstallError,
    expiry,
    manage,
    prints,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fetch import FetchError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

Json = t.Any
NOW = 1_800_000_000.0
DAY = 86400


def token(ends: float, node: str | None = None) -> str:
    bound = {"kubernetes.io": {"node": {"name": "n", "uid": node}}} if node else {}
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends, **bound}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


class Place:
    """A mirror and the directories of a host."""

    def __init__(self, root: Path) -> None:
        self.mirror, self.bin, self.conf = root / "mirror", root / "bin", root / "net.d"
        self.record = root / "cni.json"
        self.mirror.mkdir()
        self.kubeconfig = self.conf / "multus.d" / "multus.kubeconfig"

    def archive(self, name: str = "plugins.tgz", **files: bytes) -> Json:
        path = self.mirror / name
        with tarfile.open(path, "w:gz") as archive:
            for program, data in files.items():
                member = tarfile.TarInfo(f"./release/{program}")
                member.size, member.mode = len(data), 0o600
                archive.addfile(member, io.BytesIO(data))
        return self.source(path, *files)

    def source(self, path: Path, *files: str, name: str = "plugins") -> Json:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return {"name": name, "url": str(path), "checksum": f"sha256:{digest}", "files": list(files)}

    def run(self, *sources: Json, check: bool = False, now: float = NOW, **more: Json) -> Json:
        places = {"bin_dir": str(self.bin), "record": str(self.record), "timeout": 10}
        return manage(options_of("cni_install", **places, sources=list(sources), **more), check, now)

    def account(self, **more: Json) -> Json:
        account = {
            "path": str(self.kubeconfig),
            "server": "https://192.0.2.1:6443",
            "ca_data": "Q0E=",
            "namespace": "kube-system",
        }
        return {**account, "user": "multus", "renew_before": 30 * DAY, "node_uid": None, **more}

    def config(self, content: str = "{}\n") -> Json:
        return {"path": str(self.conf / "00-multus.conf"), "content": content, "public": False, "delegate": None}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def statuses(result: Json) -> list[tuple[str, str]]:
    return [(row["live"], row["status"]) for row in result["resources"]]


def test_the_four_step_drill(place: Place) -> None:
    source = place.archive(bridge=b"one", macvlan=b"two")
    virgin = place.run(source, check=True)
    assert virgin["actions"] == [f"Install bridge, macvlan in {place.bin} from {place.mirror}/plugins.tgz"]
    assert statuses(virgin) == [("absent", "drift")]
    assert not place.bin.exists()
    done = place.run(source)
    assert (done["actions"], done["resources"]) == (virgin["actions"], virgin["resources"])
    assert sorted(os.listdir(place.bin)) == ["bridge", "macvlan"]
    assert (place.bin / "bridge").stat().st_mode & 0o777 == 0o755
    for check in (False, True):
        again = place.run(source, check=check)
        assert (again["changed"], again["diff"], statuses(again)) == (False, [], [("present", "in_sync")])


def test_nothing_is_fetched_where_nothing_differs(place: Place) -> None:
    source = place.archive(bridge=b"one")
    place.run(source)
    (place.mirror / "plugins.tgz").unlink()
    assert place.run(source)["changed"] is False
    # The checksum says what it is, wherever it comes from.
    assert place.run({**source, "url": "https://192.0.2.1/plugins.tgz"})["changed"] is False


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_bytes(b"other"), Path.unlink, lambda path: path.chmod(0o644)]
)
def test_a_plugin_that_was_changed_is_drift(place: Place, spoil: t.Callable[[Path], Json]) -> None:
    source = place.archive(bridge=b"one", macvlan=b"two")
    place.run(source)
    spoil(place.bin / "bridge")
    assert statuses(place.run(source, check=True)) == [("different", "drift")]
    place.run(source)
    assert (place.bin / "bridge").read_bytes() == b"one"
    assert place.run(source)["changed"] is False


def test_a_running_plugin_keeps_its_file(place: Place) -> None:
    place.run(place.archive(bridge=b"old"))
    with (place.bin / "bridge").open("rb") as running:
        place.run(place.archive(bridge=b"new"))
        assert running.read() == b"old"
    assert (place.bin / "bridge").read_bytes() == b"new"


def test_a_single_program(place: Place) -> None:
    (place.mirror / "whereabouts-amd64").write_bytes(b"\x7fELF")
    source = place.source(place.mirror / "whereabouts-amd64", "whereabouts")
    place.run(source)
    assert (place.bin / "whereabouts").read_bytes() == b"\x7fELF"
    with pytest.raises(FetchError, match="is not a tar archive, and a single program cannot be a, b"):
        place.run({**source, "name": "x", "files": ["a", "b"]})


def test_a_wrong_checksum_installs_nothing(place: Place) -> None:
    source = {**place.archive(bridge=b"one"), "checksum": "sha256:" + "0" * 64}
    message = message_of(FetchError, place.run, source)
    assert f"Verifying {place.mirror}/plugins.tgz: its SHA-256 is " in message
    assert f", expected {'0' * 64}. Nothing was installed" in message
    assert os.listdir(place.bin) == []


def test_a_mirror_has_files_and_says_nothing_about_them(place: Place) -> None:
    source = place.archive(bridge=b"one")
    upstream = {**source, "url": "https://192.0.2.1/v1/plugins.tgz"}
    for mirror in (str(place.mirror), f"file://{place.mirror}/"):
        place.run(upstream, mirror=mirror)
        assert (place.bin / "bridge").read_bytes() == b"one"
        assert place.run(upstream, mirror=mirror)["changed"] is False
    place.archive(bridge=b"changed")
    (place.bin / "bridge").unlink()
    with pytest.raises(FetchError, match="its SHA-256 is .*, expected .* Nothing was installed"):
        place.run(upstream, mirror=str(place.mirror))
    assert os.listdir(place.bin) == []


@pytest.mark.parametrize(
    "where", ["https://192.0.2.1/v1/plugins.tgz.sha256", "http://192.0.2.1/x", "{mirror}/plugins.tgz.sha256"]
)
def test_a_file_of_checksums_is_refused_before_anything_is_fetched(place: Place, where: str) -> None:
    source = place.archive(bridge=b"one")
    (place.mirror / "plugins.tgz.sha256").write_text(source["checksum"][7:] + "\n")
    checksum = "sha256:" + where.format(mirror=place.mirror)
    wanted = {**source, "url": "https://192.0.2.1/v1/plugins.tgz", "checksum": checksum}
    for check in (True, False):
        assert message_of(InstallError, place.run, wanted, mirror=str(place.mirror), check=check) == (
            f"Installing plugins: checksum is {checksum!r}. Set it to sha256: and 64 lowercase hexadecimal digits; "
            "a checksum file from the program's own source would change along with the program. `curl -fsSL "
            "https://192.0.2.1/v1/plugins.tgz | sha256sum` prints the digits; run it on a machine and network that you "
            "trust"
        )
    assert not place.bin.exists()
    assert prints("/srv/x.tgz") == "sha256sum /srv/x.tgz"


def test_paths_in_an_archive_are_not_used(place: Place) -> None:
    path = place.mirror / "evil.tgz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("../../../bridge")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"one"))
        link = tarfile.TarInfo("macvlan")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        archive.addfile(link)
    place.run(place.source(path, "bridge"))
    assert (place.bin / "bridge").read_bytes() == b"one"
    with pytest.raises(FetchError, match="has no macvlan. Correct files"):
        place.run(place.source(path, "bridge", "macvlan"))


def test_somebody_elses_plugin(place: Place) -> None:
    source = place.archive(bridge=b"ours", macvlan=b"two")
    write_tree(place.bin, {"bridge": b"theirs"})
    assert message_of(InstallError, place.run, source, on_foreign="fail") == (
        f"Installing plugins: {place.bin}/bridge exists and was not installed by this collection. Set on_foreign to keep "
        "(use it as it is) or to take_over"
    )
    for _again in range(2):
        result = place.run(source)
        assert result["kept"] == [f"{place.bin}/bridge: not installed by this collection"]
        assert (place.bin / "bridge").read_bytes() == b"theirs"
    assert result["changed"] is False
    place.run(source, on_foreign="take_over")
    assert (place.bin / "bridge").read_bytes() == b"ours"


def test_what_is_not_wanted_any_more_is_removed(place: Place) -> None:
    both = place.archive(bridge=b"one", macvlan=b"two")
    other = place.source(place.mirror / "plugins.tgz", "bridge", name="second")
    place.run({**both, "files": ["macvlan"]}, other)
    (place.bin / "stranger").write_bytes(b"x")
    result = place.run({**both, "files": ["macvlan"]})
    assert result["actions"] == [f"Remove {place.bin}/bridge"]
    assert sorted(os.listdir(place.bin)) == ["macvlan", "stranger"]
    assert place.run({**both, "files": ["macvlan"]})["changed"] is False


@pytest.mark.parametrize("absent", [{}, {"state": "absent"}])
def test_a_plugin_that_was_replaced_is_forgotten_and_stays(place: Place, absent: Json) -> None:
    both = place.archive(bridge=b"one", macvlan=b"two")
    place.run(both)
    (place.bin / "bridge").write_bytes(b"theirs")
    checked = place.run({**both, "files": ["macvlan"]}, check=True, **absent)
    done = place.run({**both, "files": ["macvlan"]}, **absent)
    assert checked["actions"] == done["actions"]
    assert f"Forget {place.bin}/bridge" in done["actions"]
    assert done["kept"] == [f"{place.bin}/bridge: replaced by another tool or user"]
    assert (place.bin / "bridge").read_bytes() == b"theirs"
    assert place.run({**both, "files": ["macvlan"]}, **absent)["changed"] is False


def test_configs_and_kubeconfigs(place: Place) -> None:
    files = {"configs": [place.config()], "kubeconfigs": [place.account()]}
    virgin = place.run(check=True, **files)
    assert virgin["token_needed"] == [str(place.kubeconfig)]
    assert virgin["actions"] == [f"Write {place.kubeconfig} with a new token", f"Write {place.conf}/00-multus.conf"]
    with pytest.raises(InstallError, match="it needs a token of the service account multus, and none was passed"):
        place.run(**files)
    first = token(NOW + 365 * DAY)
    done = place.run(**files, tokens={"multus": first})
    assert done["actions"] == virgin["actions"]
    assert first not in json.dumps(done)
    assert place.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert json.loads(place.kubeconfig.read_text())["users"][0]["user"]["token"] == first
    for check in (False, True):
        assert place.run(check=check, **files)["changed"] is False
    # Another token alone is no reason to write; the end of the old one is.
    second = token(NOW + 700 * DAY)
    assert place.run(**files, tokens={"multus": second})["changed"] is False
    soon = NOW + 336 * DAY
    due = place.run(now=soon, check=True, **files)
    assert (due["token_needed"], statuses(due)[0]) == ([str(place.kubeconfig)], ("about to expire", "drift"))
    place.run(now=soon, **files, tokens={"multus": second})
    assert second in place.kubeconfig.read_text()
    # Another server needs no new token.
    moved = {**files, "kubeconfigs": [place.account(server="https://192.0.2.2:6443")]}
    result = place.run(**moved)
    assert (result["token_needed"], result["actions"]) == ([], [f"Write {place.kubeconfig}"])
    assert "192.0.2.1" in result["diff"][0]["before"]
    assert second not in json.dumps(result)


def test_a_token_of_another_node_or_of_none_is_replaced(place: Place) -> None:
    files = {"kubeconfigs": [place.account(node_uid="here")]}
    for before in (token(NOW + 365 * DAY), token(NOW + 365 * DAY, "a Node that was deleted"), "opaque"):
        place.run(kubeconfigs=[place.account()], tokens={"multus": before})
        looked = place.run(check=True, **files)
        assert (looked["token_needed"], statuses(looked)) == (
            [str(place.kubeconfig)],
            [("bound to no node, or to another", "drift")],
        )
        mine = token(NOW + 365 * DAY, "here")
        place.run(**files, tokens={"multus": mine})
        assert mine in place.kubeconfig.read_text()
        assert place.run(**files)["changed"] is False
        place.kubeconfig.unlink()


def test_somebody_elses_configuration_is_never_overwritten(place: Place) -> None:
    write_tree(place.conf, {"00-multus.conf": "theirs\n"})
    source = place.archive(bridge=b"one")
    for check in (True, False):
        assert message_of(InstallError, place.run, source, configs=[place.config()], check=check) == (
            f"Writing {place.conf}/00-multus.conf: the file exists and was not written by this collection. "
            "Move it away, or have the tool that wrote it (an operator, a DaemonSet) leave this to the role, and run again"
        )
    assert not place.bin.exists()
    result = place.run(state="absent", configs=[place.config()])
    assert (result["changed"], result["kept"]) == (
        False,
        [f"{place.conf}/00-multus.conf: not installed by this collection"],
    )


def test_the_pod_network_is_taken_in_whole_and_followed(place: Place) -> None:
    pods = place.conf / "10-pods.conflist"
    plugin = {"type": "calico", "kubeconfig": "/etc/cni/net.d/calico-kubeconfig", "ipam": {"type": "calico-ipam"}}
    network = {"cniVersion": "0.3.1", "name": "pods", "plugins": [plugin]}
    write_tree(place.conf, {pods.name: json.dumps(network)})
    config = {**place.config('{"type": "multus"}'), "delegate": str(pods)}
    assert place.run(configs=[config])["changed"]
    assert json.loads((place.conf / "00-multus.conf").read_text()) == {"type": "multus", "delegates": [network]}
    assert not place.run(configs=[config])["changed"]
    plugin["mtu"] = 9000
    pods.write_text(json.dumps(network))
    assert statuses(place.run(configs=[config], check=True)) == [("different", "drift")]
    place.run(configs=[config])
    assert json.loads((place.conf / "00-multus.conf").read_text())["delegates"] == [network]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file. Install the pod network first"),
        ("{", "that is not a CNI configuration: "),
        ("[]", "that is not a CNI configuration: it has neither type nor plugins"),
        ('{"plugins": []}', "that is not a CNI configuration: it has neither type nor plugins"),
    ],
)
def test_a_pod_network_that_cannot_be_taken_in(place: Place, text: str | None, said: str) -> None:
    pods = place.conf / "10-pods.conflist"
    write_tree(place.conf, {} if text is None else {pods.name: text})
    with pytest.raises(InstallError, match="with the pod network of .*10-pods.conflist: ") as caught:
        place.run(configs=[{**place.config('{"type": "multus"}'), "delegate": str(pods)}])
    assert said in str(caught.value)
    assert not (place.conf / "00-multus.conf").exists()


def test_absent_removes_ours_configuration_first(place: Place) -> None:
    source = place.archive(bridge=b"one")
    files = {"configs": [place.config()], "kubeconfigs": [place.account()], "tokens": {"multus": "opaque"}}
    place.run(source, **files)
    (place.bin / "stranger").write_bytes(b"x")
    (place.conf / "10-flannel.conf").write_text("{}")
    virgin = place.run(source, state="absent", check=True, **files)
    assert virgin["actions"] == [
        f"Remove {place.conf}/00-multus.conf",
        f"Remove {place.kubeconfig}",
        f"Remove {place.bin}/bridge",
    ]
    assert place.run(source, state="absent", **files)["actions"] == virgin["actions"]
    assert os.listdir(place.bin) == ["stranger"]
    assert sorted(os.listdir(place.conf)) == ["10-flannel.conf", "multus.d"]
    assert not place.record.exists()
    assert place.run(source, state="absent", **files)["changed"] is False


def test_a_run_that_was_cut_off_is_finished_by_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    source = place.archive(bridge=b"one", macvlan=b"two")
    real = os.rename

    def cut(old: str, new: str) -> None:
        real(old, new)
        if new.endswith("/bridge"):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", cut)
    with pytest.raises(KeyboardInterrupt):
        place.run(source)
    monkeypatch.undo()
    assert sorted(os.listdir(place.bin)) == ["bridge"]
    assert place.run(source)["kept"] == []
    assert sorted(os.listdir(place.bin)) == ["bridge", "macvlan"]
    assert place.run(source)["changed"] is False


# what is otherwise in the source, part of the message
BAD: list[tuple[Json, str]] = [
    ({"checksum": ""}, "Installing plugins: checksum is ''. Set it to sha256: and 64 lowercase hexadecimal digits"),
    ({"checksum": "md5:" + "0" * 32}, "checksum is 'md5:"),
    ({"checksum": "sha256:abc"}, "checksum is 'sha256:abc'"),
    ({"files": []}, "files is empty; list the plugins to install from it"),
    ({"files": ["../x"]}, "files has '../x'; an entry is the name of a plugin"),
    ({"url": "/nowhere/x.tgz"}, "Fetching /nowhere/x.tgz: No such file or directory. Look at the mirror's path"),
    ({"url": "http://127.0.0.1:1/x.tgz"}, "If hosts cannot reach it, set a mirror (a URL or a directory)"),
]


@pytest.mark.parametrize(("more", "text"), BAD)
def test_bad_sources(place: Place, more: Json, text: str) -> None:
    assert text in message_of(FabricError, place.run, {**place.archive(bridge=b"one"), **more})
    assert not place.bin.exists() or os.listdir(place.bin) == []


def test_a_record_that_cannot_be_read(place: Place) -> None:
    place.record.write_text("{")
    with pytest.raises(InstallError, match="Remove it; the installed files then count as foreign"):
        place.run()


@pytest.mark.parametrize(
    ("text", "ends"), [("opaque", None), ("a.b.c", None), (token(7), 7.0), ("e30.e30.c2ln", None), ("", None)]
)
def test_the_end_of_a_token(text: str, ends: float | None) -> None:
    assert expiry(text) == ends
