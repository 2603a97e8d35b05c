# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is recorded of a host, what is not, and that the same is decided about the record as about the host."""

from __future__ import annotations

import errno
import json
import re
import stat
import tempfile
import typing as t
from pathlib import Path

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import dump, network
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod import config
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace, Unreadable
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import addresses, nldev, sysfs
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.devices import look
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma.pci_netdevs import netdevs
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import rdma_info
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.machines import (
    Machine,
    Recorded,
    gid_of,
    guid_of,
    interface,
)
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import module_arguments
from ansible_collections.rdmaops.gpu_fabric.tests.support.replay import Kernel, answers
from ansible_collections.rdmaops.gpu_fabric.tests.unit.hosts import recreated

Json = t.Any

BUILD = list(recreated.MACHINES.items())


@pytest.fixture(params=[build for _name, build in BUILD], ids=[name for name, _build in BUILD])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    return t.cast(Recorded, request.param(tmp_path))


def as_read(value: Json) -> Json:
    """Return a document as JSON has it, with lists instead of tuples."""
    return json.loads(json.dumps(value))


def test_the_stored_records_are_those_of_the_recreated_machines(tmp_path: Path) -> None:
    for name, build in BUILD:
        stored = json.loads((recreated.RECORDS / f"{name}.json").read_text(encoding="utf-8"))
        assert as_read(dump.record(build(tmp_path / name))) == stored


def test_a_second_look_has_the_same_pseudonyms(host: Recorded) -> None:
    assert dump.record(host) == dump.record(host)


def test_what_is_replayed_is_what_the_collection_sees_on_the_host(host: Recorded, tmp_path: Path) -> None:
    machines = [host.machine, *(answer for _space, answer in host.spaces if isinstance(answer, Machine))]
    for number, machine in enumerate(machines):
        with machine.kernel():
            seen = look(("gids", "pkeys"), str(machine.sys))
        kernel = Kernel(machine.record(), tmp_path / f"replay{number}")
        for row in seen["unreadable"]:
            row["error"] = row["error"].replace(str(machine.sys), "/sys")
        assert kernel.look(("gids", "pkeys")) == seen
        assert netdevs(kernel.sys) == netdevs(str(machine.sys))


def test_the_same_is_decided_with_pseudonyms_as_without(host: Recorded, tmp_path: Path) -> None:
    document = as_read(dump.look(host))
    pseudonyms = dump.pseudonyms(document, host.names())
    known = as_read(answers(document, tmp_path / "known"))
    hidden = as_read(answers(pseudonyms.apply(document), tmp_path / "hidden"))
    assert hidden == pseudonyms.apply(known)


def test_auxiliary_devices_are_recorded_that_this_release_does_not_know(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    place = machine.card("0000:08:00.0", "mlx5_core", ("mlx5_core.new-rdma.0", "mlx5_new"))
    machine.device("mlx5_0", place, guid_of("b8:59:9f:01:02:03"))
    links = machine.record()["links"]
    assert links[f"{place}/mlx5_core.new-rdma.0/driver"] == "bus/auxiliary/drivers/mlx5_new.rdma"
    assert links["bus/auxiliary/drivers/mlx5_new.rdma/module"] == "module/mlx5_new"


def test_errors_of_the_kernel_are_recorded(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "sys")
    machine.netdev("ens1", machine.card("0000:08:00.0", "mlx5_core"), "b8:59:9f:01:02:03")
    machine.device("mlx5_0", None, guid_of("b8:59:9f:01:02:03"))
    machine.roce("mlx5_0", "ens1", "b8:59:9f:01:02:03")
    machine.refuse("class/infiniband/mlx5_0/ports/1/gids/1")

    def refused(index: int) -> list[nldev.Port]:
        raise nldev.NldevError(errno.EIO, "list the ports")

    recorded = machine.record()
    assert recorded["files"]["class/infiniband/mlx5_0/ports/1/gids/1"] == errno.EISDIR
    kernel = Kernel(recorded, tmp_path / "replay")
    with pytest.raises(sysfs.SysfsError, match="Is a directory"):
        kernel.read(f"{kernel.sys}/class/infiniband/mlx5_0/ports/1/gids/1")
    assert kernel.look(("gids",))["unreadable"] == [
        {"device": "mlx5_0", "what": "ports/1/gids/1", "error": "EISDIR (Is a directory)"}
    ]
    with machine.kernel(), pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(nldev, "ports", refused)
        row = dump.recording.record(str(machine.sys))["devices"][0]
    assert (row["ports"], row["errno"]) == ([], errno.EIO)


# command line, what is recorded of it
CMDLINES = [
    (None, None),
    ("root=/dev/sda1 ro quiet", ""),
    ("ro ib_core.netns_mode=0 rd.iscsi.password=hunter2", "ib_core.netns_mode=0"),
    ("ib-core.netns_mode=Y -- token=abc", "ib-core.netns_mode=Y --"),
    ('"ib_core.netns_mode=0 1" x="ib_core.netns_mode=1"', '"ib_core.netns_mode=0 1"'),
    ("rd.driver.pre=a,b rd.modules_load=c modules_load=d x.modules_load=e", "rd.driver.pre=a,b rd.modules_load=c modules_load=d"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CMDLINES)
def test_of_a_command_line_only_what_is_read(text: str | None, expected: str | None) -> None:
    assert dump.cmdline(text) == expected


def test_of_modprobe_d_only_what_is_read() -> None:
    texts = {
        "/etc/modprobe.d/a.conf": "# jo@example.com\noptions cifs secret=1\noptions ib-core \\\n x=1\nalias rdma ib_core\n",
        "/etc/modprobe.d/b.conf": "options nvme multipath=Y\n",
        "/etc/modprobe.d/c.conf": "options rdma netns_mode=0 \n",
    }
    tree = config.from_texts(texts, "ib_core")
    kept = dump.modprobe(tree, texts)
    assert kept == {
        "/etc/modprobe.d/a.conf": "\n\noptions ib-core \\\n x=1\nalias rdma ib_core\n",
        "/etc/modprobe.d/c.conf": "options rdma netns_mode=0 \n",
    }
    assert config.from_texts(kept, "ib_core").assignments == tree.assignments


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=9, max_size=14)
# Not so many zeros that its digits are found in every pseudonym.
MACS = st.binary(min_size=3, max_size=3).map(lambda octets: (b"\xb8\x59\x9f" + octets).hex(":"))
PRIVATE = st.integers(0xC0A80000, 0xC0A8FFFF).map(
    lambda number: ".".join(str(octet) for octet in number.to_bytes(4, "big"))
)


class Secrets(t.NamedTuple):
    """Return what identifies a machine or its users."""

    mac: str
    other_mac: str
    ip: str
    host: str
    pod: str
    namespace: str
    uid: str
    netns: str
    password: str
    command: str
    server: str

    def all(self) -> list[str]:
        local = addresses.default_gid(self.mac) or ""
        made = [guid_of(self.mac), gid_of(self.ip), gid_of(local), self.mac.replace(":", ""), guid_of(self.other_mac)]
        return [*self, *made]


SECRETS = st.builds(
    Secrets, MACS, MACS, PRIVATE, WORDS, WORDS, WORDS, st.uuids(version=4).map(str), WORDS, WORDS, WORDS, WORDS,
)  # fmt: skip


def secretive(secrets: Secrets, directory: Path) -> Recorded:
    """Return a machine that has them wherever there is room for one."""
    machine, pod = Machine(directory / "sys"), Machine(directory / "pod")
    name = f"enx{secrets.mac.replace(':', '')}"
    for where, device, mac in ((machine, "mlx5_0", secrets.mac), (pod, "mlx5_1", secrets.other_mac)):
        card = where.card("0000:08:00.0", "mlx5_core", ("mlx5_core.rdma.0", "mlx5_ib"))
        where.netdev(name, card, mac, phys_port_name="p0")
        where.device(device, card, guid_of(mac), firmware="28.43.1014", index=int(device[-1]))
        where.roce(device, name, mac, secrets.ip)
    cmdline = f"root=UUID={secrets.uid} ip={secrets.ip}::::{secrets.host} rd.iscsi.password={secrets.password} ib_core.netns_mode=1"
    path = f"/boot/loader/entries/{secrets.uid.replace('-', '')}-6.12.1.conf"
    entry = BootEntry(
        "bls",
        path,
        3,
        cmdline,
        None,
        "6.12.1",
        [],
        f"Linux on {secrets.host}",
        parts=[(path, 3, cmdline)],
        problem=f"The default entry 'Linux of {secrets.command}' of {path} does not itself boot a Linux kernel",
    )
    holder = Holder(
        "mount", f"/run/netns/{secrets.netns}", 1, secrets.command, f"{secrets.command}.service", {"uid": secrets.uid}
    )
    host = Recorded(
        machine,
        directory / "root",
        recreated.sources(entry, None, cmdline),
        live="exclusive",
        files={
            f"/etc/modprobe.d/{secrets.host}.conf": f"# {secrets.password}\noptions ib_core netns_mode=0\n",
            "/etc/modprobe.d/b.conf": f"options cifs key={secrets.password}\n",
        },
        spaces=[
            (Namespace(4026532300, secrets.netns, [holder], 1), pod),
            (Namespace(4026532301, secrets.netns, [holder], 1), OSError(errno.EACCES, f"/run/netns/{secrets.netns}")),
        ],
        pods={secrets.uid: (secrets.namespace, secrets.pod)},
        interfaces=[
            interface(name, secrets.mac, "0000:08:00.0", f"{secrets.ip}/24",
                      uses=[f"storage mount /home/{secrets.pod} from {secrets.server}"]),
            interface(f"cali{secrets.pod[:8]}", secrets.other_mac, kind="veth"),
        ],
        names=[f"{secrets.host}.example.org", secrets.host],
    )  # fmt: skip
    host.unreadable = [Unreadable(f"/proc/1/root/run/netns/{secrets.netns}", "EACCES")]
    return host


@settings(deadline=None, max_examples=25, phases=[Phase.explicit, Phase.generate])
@given(SECRETS)
def test_nothing_that_identifies_the_machine_or_its_users_is_recorded(secrets: Secrets) -> None:
    with tempfile.TemporaryDirectory() as directory:
        host = secretive(secrets, Path(directory))
        known, text = json.dumps(dump.look(host)), json.dumps(dump.record(host))
    assert secrets.mac in known
    assert secrets.ip in known
    assert [secret for secret in secrets.all() if secret in text] == []


class Ended(Exception):
    pass


def run(monkeypatch: pytest.MonkeyPatch, host: Recorded, check_mode: bool = False, **options: Json) -> Json:
    """Run rdma_info on a recorded host; return what it returns, or raise Ended with its message."""

    def fail(_self: Json, msg: str, **_result: Json) -> t.NoReturn:
        raise Ended(msg)

    results: list[Json] = []
    monkeypatch.setattr(
        "ansible.module_utils.basic.AnsibleModule.exit_json", lambda _self, **result: results.append(result)
    )
    monkeypatch.setattr("ansible.module_utils.basic.AnsibleModule.fail_json", fail)
    # Since Python 3.12, syslog refuses a NUL in the options, and Ansible ends the module before it has begun.
    monkeypatch.setattr("ansible.module_utils.basic.HAS_SYSLOG", False)
    monkeypatch.setattr(dump, "Host", lambda: host)
    seen = {"netns_mode": "shared", "devices": [], "unreadable": []}
    monkeypatch.setattr(rdma_info, "gather_info", lambda *_arguments: seen)
    with module_arguments({**options, "_ansible_check_mode": check_mode, "_ansible_diff": True}):
        rdma_info.main()
    return results[0]


def test_check_run_run_again_check_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host, path = recreated.lab(tmp_path), tmp_path / "new/record.json"
    first = run(monkeypatch, host, check_mode=True, dump=str(path))
    assert (first["changed"], first["actions"]) == (True, [f"Write {path}"])
    assert not path.parent.exists()
    second = run(monkeypatch, host, dump=str(path))
    assert second == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == as_read(dump.record(host))
    assert second["diff"][0]["after"] == path.read_text()
    before = path.stat()
    for check_mode in (False, True):
        again = run(monkeypatch, host, check_mode=check_mode, dump=str(path))
        assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
    assert path.stat() == before
    host.live = "exclusive"
    assert run(monkeypatch, host, check_mode=True, dump=str(path))["changed"]
    assert path.stat() == before


def test_without_the_option_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = recreated.lab(tmp_path)
    host.root = False
    result = run(monkeypatch, host)
    assert (result["changed"], result["actions"], result["netns_mode"]) == (False, [], "shared")


def test_it_needs_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = recreated.lab(tmp_path)
    host.root = False
    with pytest.raises(Ended) as caught:
        run(monkeypatch, host, dump=str(tmp_path / "record.json"))
    assert str(caught.value) == (
        "Recording this host needs root, to read its boot entry and to look into all network namespaces; set become: true"
    )
    assert not (tmp_path / "record.json").exists()


def test_a_path_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = recreated.lab(tmp_path)
    with pytest.raises(Ended) as caught:
        run(monkeypatch, host, dump="/root/a\0b")
    assert str(caught.value) == "dump is '/root/a\\x00b'; a path cannot have a NUL"
    with pytest.raises(Ended) as caught:
        run(monkeypatch, host, dump=str(tmp_path))
    assert str(caught.value) == f"Reading {tmp_path}: Is a directory"


def test_a_host_without_ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Json:
        raise network.NetworkError("Running ip: ip(8) is not installed on this host; install iproute2")

    host = recreated.lab(tmp_path / "host")
    monkeypatch.setattr(host, "network_info", missing)
    document = as_read(dump.record(host))
    assert document["network"]["error"] == "Running ip: ip(8) is not installed on this host; install iproute2"
    assert answers(document, tmp_path / "replay")["attachments"] == []


def test_the_version_is_that_of_the_collection() -> None:
    assert yaml.safe_load((COLLECTION / "galaxy.yml").read_text())["version"] == dump.COLLECTION


def test_the_page_lists_what_is_recorded() -> None:
    page = (COLLECTION / "docs/dump.md").read_text(encoding="utf-8")
    document = json.loads((recreated.RECORDS / "recreated-connectx7-switchdev.json").read_text(encoding="utf-8"))
    keys = set()
    for key, value in document.items():
        keys |= {f"{key}.{inner}" for inner in value} if isinstance(value, dict) else {key}
    assert set(re.findall(r"^\| `([^`]+)` \|", page, re.M)) == keys
