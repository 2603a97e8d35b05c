# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that were put together from the sources of their drivers, and not recorded: the first records of this
directory are made of them.

python tests/unit/hosts/recreated.py writes these again, after a change of what is recorded.
"""

from __future__ import annotations

import json
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import dump
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.host import RDMA_DROP_IN
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import Sources
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.tests.support.machines import (
    Machine,
    Recorded,
    guid_of,
    interface,
)

RECORDS = Path(__file__).parent

POD_UID = "0b5e3a4e-8f0c-4b0e-9a34-4f6f2f4a1c11"
MACHINE_ID = "3f1c0d8a52e94f5b8c1d7e6f90a1b2c3"


def sources(entry: BootEntry, contents: Contents | None, running: str) -> Sources:
    return Sources("/", entry, running, contents, contents is not None, False, False, [])


def lab(directory: Path) -> Recorded:
    """The lab's node: Debian 13, GRUB, initramfs-tools, soft-RoCE on two virtio cards."""
    machine = Machine(directory / "sys")
    rows = []
    for rail in range(2):
        pci, mac, name = f"0000:00:0{4 + rail}.0", f"52:54:00:90:0{rail}:01", f"ens{4 + rail}"
        machine.netdev(name, machine.card(pci, "virtio-pci"), mac, mtu=1500)
        machine.device(f"rxe{rail}", None, f"5054:00ff:fe90:0{rail}01")
        machine.roce(f"rxe{rail}", name, mac, f"10.90.{rail}.1", rate="2.5 Gb/sec (1X SDR)")
        rows.append(interface(name, mac, pci, f"10.90.{rail}.1/24", f"fe80::5054:ff:fe90:{rail}01/64", mtu=1500))
    uplink = interface("ens3", "52:54:00:12:34:56", "0000:00:03.0", "10.0.2.15/24", mtu=1500, uses=["default_route"])
    cmdline = "root=UUID=6e0c1a52-7d0b-4c43-9a5f-2f1f5a3f9e10 ro quiet console=ttyS0"
    kernel = "7.2.12+deb13-amd64"
    image = f"/boot/initrd.img-{kernel}"
    entry = BootEntry(
        "grub", "/boot/grub/grub.cfg", 128, cmdline, f"/boot/vmlinuz-{kernel}", kernel, [image], "Debian GNU/Linux",
        parts=[("/boot/grub/grub.cfg", 128, cmdline)], remedy="change GRUB_CMDLINE_LINUX in /etc/default/grub",
    )  # fmt: skip
    contents = Contents(
        image, "initramfs-tools", ["ext4", "ib_core", "mlx5_ib", "virtio_net"], ["ext4"], {},
        requires={"mlx5_ib": ["ib_core"]}, versions={kernel: [image]}, configurations={image: []},
    )  # fmt: skip
    held = Holder("process", "/proc/340/ns/net", 340, "systemd-hostnam", "systemd-hostnamed.service", None)
    return Recorded(
        machine,
        directory / "root",
        sources(entry, contents, cmdline),
        files={
            RDMA_DROP_IN: f"{HEADER}\noptions ib_core netns_mode=0\n",
            "/etc/modprobe.d/rdma.conf": "# asked for by jo@example.com\noptions mlx4_core log_num_mtt=24\n",
        },
        spaces=[(Namespace(4026532270, None, [held], 1), Machine(directory / "hostnamed"))],
        able={"mlx5_ib", "rdma_rxe"},
        interfaces=[uplink, *rows, interface("veth0a1b2c3d", "0e:11:22:33:44:55", kind="veth")],
        system={"kernel": kernel, "machine": "x86_64", "id": "debian", "version_id": "13"},
    )


def connectx7(directory: Path) -> Recorded:
    """RHEL 9 with ConnectX-7: one with VFs in switchdev mode, one in a pod, one that was left behind."""
    machine = Machine(directory / "sys")
    pod, left = Machine(directory / "pod"), Machine(directory / "left")
    rows = []
    for rail, (where, pci) in enumerate(((machine, "0000:1a:00.0"), (pod, "0000:3c:00.0"), (left, "0000:5e:00.0"))):
        mac, name = f"b8:3f:d2:0a:1{rail}:4c", f"ens{rail + 1}f0np0" if where is machine else "net1"
        representor = ("mlx5_core.rdma-rep.0", "mlx5_ib") if where is machine else ("mlx5_core.rdma.0", "mlx5_ib")
        place = where.card(pci, "mlx5_core", representor, numa=rail // 2)
        where.netdev(name, place, mac, phys_port_name="p0")
        where.device(
            f"mlx5_{rail}", place, guid_of(mac), firmware="28.43.2026", board="MT_0000000838", index=rail,
        )  # fmt: skip
        where.roce(f"mlx5_{rail}", name, mac, f"192.168.{rail + 1}.17")
        if where is machine:
            rows.append(interface(name, mac, pci, f"192.168.{rail + 1}.17/24", rdma=[f"mlx5_{rail}"]))
            for function in range(2):
                vf_mac = f"3e:0c:11:22:33:4{function}"
                machine.netdev(f"{name[:-3]}pf0vf{function}", place, vf_mac, phys_port_name=f"pf0vf{function}")
                machine.roce(f"mlx5_{rail}", f"{name[:-3]}pf0vf{function}", vf_mac)
                rows.append(interface(f"{name[:-3]}pf0vf{function}", vf_mac, pci))
    rows.append(interface("eno1", "3c:ec:ef:40:11:22", "0000:c1:00.0", "198.51.100.21/24", uses=["default_route"]))
    kernel = "5.14.0-503.11.1.el9_5.x86_64"
    bls = f"/boot/loader/entries/{MACHINE_ID}-{kernel}.conf"
    cmdline = "root=/dev/mapper/rhel-root ro rd.iscsi.password=hunter2 ib_core.netns_mode=1 rd.driver.pre=mlx5_ib"
    image = f"/boot/initramfs-{kernel}.img"
    entry = BootEntry(
        "bls", bls, 4, cmdline, f"/boot/vmlinuz-{kernel}", kernel, [image], "Red Hat Enterprise Linux on gpu-01",
        parts=[(bls, 4, cmdline)], remedy="change it with grubby --update-kernel=ALL --remove-args=...",
    )  # fmt: skip
    contents = Contents(
        image, "dracut", ["ib_core", "mlx5_core", "mlx5_ib", "xfs"], ["xfs"],
        {"/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf": f"{HEADER}\noptions ib_core netns_mode=0\n"},
        requires={"mlx5_ib": ["mlx5_core", "ib_core"]}, versions={kernel: [image]},
        configurations={image: ["etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"]},
    )  # fmt: skip
    pause = Holder("process", "/proc/4711/ns/net", 4711, "pause", f"cri-containerd-{'ab' * 32}.scope", {"uid": POD_UID})
    mount = Holder("mount", "/run/netns/cni-6f0d9f0e-1111-2222-3333-444455556666", 1, "systemd", None, None)
    return Recorded(
        machine,
        directory / "root",
        sources(entry, contents, cmdline),
        live="exclusive",
        files={RDMA_DROP_IN: f"{HEADER}\noptions ib_core netns_mode=0\n"},
        spaces=[
            (Namespace(4026532300, "cni-0a7b", [pause], 1), pod),
            (Namespace(4026532301, "cni-6f0d9f0e-1111-2222-3333-444455556666", [mount], 1), left),
            (
                Namespace(4026532302, None, [pause._replace(path="/proc/4712/ns/net", pid=4712, pod=None)], 1),
                OSError(110, "no answer from inside within 10 s"),
            ),
        ],
        pods={POD_UID: ("team-vision", "resnet-worker-0")},
        able={"mlx5_ib"},
        interfaces=rows,
        system={"kernel": kernel, "machine": "x86_64", "id": "rhel", "version_id": "9.5"},
    )


def mixed(directory: Path) -> Recorded:
    """Ubuntu 24.04 with bnxt_re, a mlx4 card with two ports, a sub-function, and InfiniBand with IPoIB."""
    machine = Machine(directory / "sys")
    bnxt = machine.card("0000:21:00.0", "bnxt_en", ("bnxt_en.rdma.0", "bnxt_re"))
    machine.netdev("enp33s0f0np0", bnxt, "5c:25:73:01:02:03", phys_port_name="p0")
    machine.device("bnxt_re0", bnxt, "5e25:73ff:fe01:0203", firmware="229.2.52.0")
    machine.roce("bnxt_re0", "enp33s0f0np0", "5c:25:73:01:02:03", "172.16.4.9", "fd12:3456:789a::9")
    mlx4 = machine.card("0000:41:00.0", "mlx4_core", numa=1)
    machine.device("mlx4_0", mlx4, "e41d:2d03:0011:2230", firmware="2.42.5000", board="MT_1090111019")
    for port in range(2):
        name, mac = f"ens41{'d1' * port}", f"e4:1d:2d:11:22:3{port + 1}"
        machine.netdev(name, mlx4, mac, dev_port=port)
        machine.roce("mlx4_0", name, mac, rate="40 Gb/sec (4X QDR)", state="DOWN" if port else "ACTIVE")
    function = machine.card("0000:61:00.0", "mlx5_core", ("mlx5_core.rdma.2", "mlx5_ib"))
    ipoib_guid = "0c42:a103:0065:1f2e"
    ipoib = "00:00:10:29:fe:80:00:00:00:00:00:00:" + ":".join(
        ipoib_guid.replace(":", "")[at : at + 2] for at in range(0, 16, 2)
    )
    machine.netdev("ibp97s0", function, ipoib, type=32, mtu=2044)
    machine.device("mlx5_ib0", function, ipoib_guid, protocol="ib", firmware="20.43.1014", board="MT_0000000222")
    machine.port(
        "mlx5_ib0", "ibp97s0", [(f"fe80:0000:0000:0000:{ipoib_guid}", "IB/RoCE v1", None)], "200 Gb/sec (4X HDR)",
        "InfiniBand", pkeys=("0xffff", "0x8001"), lids=(17, 1, 0),
    )  # fmt: skip
    child = f"{function}/mlx5_core.sf.4"
    machine.driver(f"{child}/mlx5_core.rdma.4", "mlx5_ib.rdma", "mlx5_ib", "auxiliary")
    machine.netdev("enp97s0sf4", child, "02:11:22:33:44:55")
    machine.device("mlx5_sf4", child, "0211:22ff:fe33:4455", firmware="20.43.1014", board="MT_0000000222")
    machine.roce("mlx5_sf4", "enp97s0sf4", "02:11:22:33:44:55", "172.16.5.9", rate="200 Gb/sec (4X HDR)")
    machine.refuse("class/infiniband/mlx5_sf4/ports/1/rate")
    kernel = "6.8.0-51-generic"
    image = f"/boot/initrd.img-{kernel}"
    cmdline = "root=UUID=0b9a2f7e-95c8-4c7f-8a2b-4b7b1b7c6d5e ro"
    entry = BootEntry(
        "grub", "/boot/grub/grub.cfg", 141, cmdline, f"/boot/vmlinuz-{kernel}", kernel, [image], "Ubuntu",
        parts=[("/boot/grub/grub.cfg", 141, cmdline)],
    )  # fmt: skip
    contents = Contents(
        image, "initramfs-tools", ["ib_core", "mlx5_ib"], ["ib_core", "mlx5_ib"],
        {"/etc/modprobe.d/mlnx.conf": "options ib_core netns_mode=1\n"}, requires={"mlx5_ib": ["ib_core"]},
        versions={kernel: [image]}, configurations={image: ["etc/modprobe.d/mlnx.conf"]},
    )  # fmt: skip
    return Recorded(
        machine,
        directory / "root",
        sources(entry, contents, cmdline),
        files={
            "/etc/modprobe.d/mlnx.conf": "options mlx5_core probe_vf=0\noptions ib_core \\\n  netns_mode=1\n",
            "/etc/modprobe.d/sriov_network_operator_modules_config.conf": "options ib_core netns_mode=0\n",
            "/etc/modprobe.d/zzz-site.conf": "options nvme_core multipath=Y\noptions ib_core netns_mode=Y\n",
        },
        able={"mlx5_ib"},
        interfaces=[
            interface("enp33s0f0np0", "5c:25:73:01:02:03", "0000:21:00.0", "172.16.4.9/24", rdma=["bnxt_re0"]),
            interface("ens41", "e4:1d:2d:11:22:31", "0000:41:00.0", "172.16.9.9/24",
                      uses=["storage mount /srv/team-a from nas7.example.com"], rdma=["mlx4_0"]),
            interface("ens41d1", "e4:1d:2d:11:22:32", "0000:41:00.0", state="DOWN", rdma=["mlx4_0"]),
            interface("ibp97s0", ipoib, "0000:61:00.0", mtu=2044, rdma=["mlx5_ib0"]),
            interface("enp97s0sf4", "02:11:22:33:44:55", "0000:61:00.0", "172.16.5.9/24", rdma=["mlx5_sf4"]),
        ],
        system={"kernel": kernel, "machine": "x86_64", "id": "ubuntu", "version_id": "24.04"},
    )  # fmt: skip


MACHINES: dict[str, t.Callable[[Path], Recorded]] = {
    "recreated-lab-soft-roce": lab,
    "recreated-connectx7-switchdev": connectx7,
    "recreated-bnxt-mlx4-infiniband": mixed,
}


def main() -> None:
    for name, build in MACHINES.items():
        with tempfile.TemporaryDirectory() as directory:
            text = json.dumps(dump.record(build(Path(directory))), indent=1, sort_keys=True)
        (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
