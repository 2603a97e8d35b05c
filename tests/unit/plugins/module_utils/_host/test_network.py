# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host uses its network devices for, and its CNI plugins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _command
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import network
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool

Json = t.Any

# source of a mount, its servers
SOURCES = [
    ("10.1.2.9:/export/data", ["10.1.2.9"]),
    ("[fd00::9]:/export", ["fd00::9"]),
    ("storage.example:/x", ["storage.example"]),
    ("//smb.example/share", ["smb.example"]),
    ("10.0.0.1:6789,10.0.0.2:6789:/", ["10.0.0.1", "10.0.0.2"]),
    ("10.9.0.1@tcp:10.9.0.2@o2ib:/lustre", ["10.9.0.1", "10.9.0.2"]),
]


@pytest.mark.parametrize(("source", "wanted"), SOURCES)
def test_servers_of_a_mount(source: str, wanted: list[str]) -> None:
    assert network.servers(source) == wanted


def test_mounts_of_remote_file_systems() -> None:
    text = "10.1.2.9:/d /data\\040set nfs4 rw 0 0\nproc /proc proc rw 0 0\ntmpfs /run tmpfs rw 0 0\n"
    assert network.mounts(text) == [("10.1.2.9:/d", "/data set", "nfs4")]


def test_plugins_and_configurations(tmp_path: Path) -> None:
    bin_dir, conf = tmp_path / "bin", tmp_path / "net.d"
    for directory in (bin_dir, conf, conf / "whereabouts.d"):
        directory.mkdir()
    for name, text in {
        "good": '#!/bin/sh\nread x\ntest "$CNI_COMMAND" = VERSION || exit 1\necho \'{"supportedVersions": ["0.3.1", "1.0.0"]}\'\n',
        "bad": "#!/bin/sh\nexit 3\n",
    }.items():
        (bin_dir / name).write_text(text)
        (bin_dir / name).chmod(0o755)
    (bin_dir / "LICENSE").write_text("")
    for name in ("10-pods.conflist", "00-multus.conf", "notes.txt"):
        (conf / name).write_text("{}")
    result = network.cni(network.Host(), str(bin_dir), str(conf), True)
    assert result["plugins"] == ["bad", "good"]
    assert result["configs"] == ["00-multus.conf", "10-pods.conflist"]
    assert result["versions"] == {"good": ["0.3.1", "1.0.0"], "bad": None}
    assert [row["plugin"] for row in result["unreadable"]] == ["bad"]
    assert network.cni(network.Host(), str(bin_dir), str(conf), False)["versions"] is None


def test_a_host_without_plugins(tmp_path: Path) -> None:
    result = network.cni(network.Host(), str(tmp_path / "none"), str(tmp_path / "none"), False)
    assert (result["plugins"], result["configs"]) == ([], [])


def test_no_ip_on_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_argv: Json, **_options: Json) -> Json:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(_command, "run", missing)
    with pytest.raises(network.NetworkError, match="ip\\(8\\) is not installed on this host; install iproute2"):
        network.Host().ip("link", "show")


# network device, where its link "device" leads to, and the wanted PCI address, auxiliary device and NUMA node
PLACES = [
    ("enp8s0f0np0", "0000:08:00.0", ("0000:08:00.0", None, 1)),
    ("enp8s0f0s88", "0000:08:00.0/mlx5_core.sf.4", ("0000:08:00.0", "mlx5_core.sf.4", 1)),
    ("ens3", "0000:08:00.0/virtio0", ("0000:08:00.0", None, 1)),
    ("bond0", None, (None, None, None)),
]


@pytest.mark.parametrize(("name", "place", "wanted"), PLACES)
def test_the_place_of_a_network_device(tmp_path: Path, name: str, place: str | None, wanted: Json) -> None:
    (tmp_path / "class/net" / name).mkdir(parents=True)
    if place:
        device = tmp_path / "devices/pci0000:07" / place
        device.mkdir(parents=True)
        (tmp_path / "devices/pci0000:07/0000:08:00.0/numa_node").write_text("1\n")
        (tmp_path / "class/net" / name / "device").symlink_to(device)
    assert network.Host(sys=str(tmp_path)).hardware(name) == wanted


# What ip(8) of iproute2 6.15 prints of a device with IFLA_NETNS_IMMUTABLE (print_linkinfo() in ip/ipaddress.c), and of others.
IMMUTABLE = {"ifname": "enp8s0f0np0", "netns-immutable": True}
# Of an older one.
BOND = {"ifname": "bond0", "linkinfo": {"info_kind": "bond"}}
VLAN = {"ifname": "bond0.100", "linkinfo": {"info_kind": "vlan"}}


@pytest.mark.parametrize(
    ("row", "movable"), [(IMMUTABLE, False), (BOND, False), (VLAN, None), ({"ifname": "enp8s0f0v0"}, None)]
)
def test_whether_the_kernel_keeps_a_device_in_its_namespace(tmp_path: Path, row: Json, movable: bool | None) -> None:
    class Links(network.Host):
        def ip(self, *arguments: str) -> Json:
            return [row] if arguments[-2:] == ("link", "show") else []

    assert network.interfaces(Links(sys=str(tmp_path), proc=str(tmp_path)), [])[0]["can_change_netns"] is movable


# A namespace with an uplink, a port in a bridge, a macvlan with an address, storage behind a port, and a free one.
SETUP = """
ip link set lo up
for name in uplink free store under; do ip link add $name type veth peer name p$name; ip link set $name up; ip link set p$name up; done
ip link add br0 type bridge; ip link set br0 up; ip link set puplink master br0
ip address add 192.0.2.5/24 dev uplink; ip route add default via 192.0.2.1 dev uplink
ip address add 198.51.100.5/24 dev store
ip link add link under name mac0 type macvlan mode bridge; ip link set mac0 up; ip address add 203.0.113.5/24 dev mac0
"""


def test_what_a_real_host_uses_its_devices_for(tmp_path: Path) -> None:
    need_root()
    need_tool("ip")
    need_tool("unshare")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mounts").write_text("198.51.100.9:/d /data nfs4 rw 0 0\n203.0.113.200:/d /old nfs rw 0 0\n")
    program = (
        "import json, sys\n"
        f"from {network.__name__} import Host, interfaces\n"
        "print(json.dumps(interfaces(Host(proc=sys.argv[1]), ['203.0.113.5'])))\n"
    )
    script = f'set -e\n{SETUP}\nexec "$0" -c "$1" "$2"\n'
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, sys.executable, program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert "lo" not in rows
    assert {name: row["uses"] for name, row in rows.items() if row["uses"]} == {
        "uplink": ["default_route"],
        "puplink": ["bridge br0"],
        "store": ["storage mount /data from 198.51.100.9"],
        "under": ["macvlan mac0"],
        "mac0": ["internal_ip", "storage mount /old from 203.0.113.200"],
    }
    assert "203.0.113.5/24" in rows["mac0"]["addresses"]
    assert rows["free"]["mtu"] == 1500
    assert rows["free"]["pci_address"] is None
    assert rows["puplink"]["master"] == "br0"
