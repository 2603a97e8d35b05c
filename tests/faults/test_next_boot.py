# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reboot is made only where it helps, and once per cause."""

from __future__ import annotations

import re

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.faults.machine import DROP_IN, Machine
from ansible_collections.rdmaops.gpu_fabric.tests.support import site

pytestmark = pytest.mark.long

GRUB = "/etc/default/grub.d/zz-test.cfg"
UNIT = "/etc/systemd/system/zz-test-shared.service"


def reboot_with_consent(node: Machine) -> site.Run:
    return site.playbook("rdmaops.gpu_fabric.reboot", node.name, node_maintenance_reboot_ok=True)


def test_a_stale_initramfs_that_loads_ib_core(node: Machine) -> None:
    node.force_ib_core_into_the_image()
    node.reset()
    node.shell("ip netns add pod")
    boot = node.boot_id()

    planned = site.module(node.name, "rdma_system", check=True, netns_mode="exclusive")
    assert planned["mode"]["initramfs"] == {"image": node.image, "contains_module": True, "forced": True, "value": None}
    assert planned["initramfs_stale"] is False
    assert planned["after"]["initramfs_stale"] is True
    assert planned["after"]["next_boot"] == "shared"
    assert planned["after"]["reboot_would_help"] is False

    left = site.module(node.name, "rdma_system", netns_mode="exclusive", initramfs="report")
    assert left["changed"] is True
    stale = site.module(node.name, "rdma_system", netns_mode="exclusive", initramfs="report")
    assert (stale["changed"], stale["initramfs_stale"], stale["mode"]["next_boot"]) == (False, True, "shared")
    assert stale["mode"]["configured"]["value"] == "exclusive"
    assert "The next boot sets shared, because the initramfs loads the module itself" in stale["reboot_reason"]

    refused = reboot_with_consent(node)
    assert refused.rc != 0
    assert "would not help" in refused.messages()
    assert "initramfs" in refused.messages()
    assert node.boot_id() == boot

    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    assert "options ib_core netns_mode=0" in node.drop_in_of_image()
    assert node.shell(f"ls {node.image}.rdmaops-previous")
    fresh = site.module(node.name, "rdma_system", netns_mode="exclusive", initramfs="rebuild")
    assert (fresh["changed"], fresh["initramfs_stale"], fresh["mode"]["next_boot"]) == (False, False, "exclusive")
    assert fresh["reboot_would_help"] is True


def test_a_boot_entry_that_sets_the_other_mode(node: Machine) -> None:
    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    line = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX ib_core.netns_mode=1"'
    node.shell(f"mkdir -p /etc/default/grub.d; echo '{line}' >{GRUB}; update-grub; sync", limit=300)
    boot = node.boot_id()
    node.shell("rdma system set netns shared; ip netns add pod2", check=False)
    if node.mode() != "shared":
        node.reboot()
        boot = node.boot_id()
        node.shell("ip netns add pod2")
    refused = reboot_with_consent(node)
    assert refused.rc != 0
    number = node.shell("grep -n 'linux.*ib_core.netns_mode=1' /boot/grub/grub.cfg | head -n1 | cut -d: -f1")
    assert "would not help" in refused.messages()
    assert f'"ib_core.netns_mode=1" in /boot/grub/grub.cfg line {number}' in refused.messages()
    assert node.boot_id() == boot

    # This boot has it, and the next one will not.
    node.reboot()
    node.shell("ip netns add pod")
    assert "ib_core.netns_mode=1" in node.shell("cat /proc/cmdline")
    assert node.mode() == "shared"
    node.shell(f"rm {GRUB}; update-grub; sync", limit=300)
    observed = site.module(node.name, "rdma_system", netns_mode="exclusive")
    assert observed["mode"]["cmdline"] == {"running": "shared", "next_boot": None}
    assert (observed["reboot_required"], observed["reboot_would_help"], observed["conflicts"]) == (True, True, [])
    boot = node.boot_id()
    done = site.playbook("rdmaops.gpu_fabric.site", node.name, node_maintenance_reboot_ok=True)
    assert done.rc == 0, done.messages()
    assert node.boot_id() != boot
    assert node.mode() == "exclusive"


@pytest.mark.fault("node that does not come back right")
def test_a_node_that_comes_back_in_the_wrong_mode_is_not_rebooted_again(node: Machine) -> None:
    unit = (
        "[Unit]\\nAfter=lab-node.service\\nBefore=ssh.service\\n[Service]\\nType=oneshot\\n"
        "ExecStart=/bin/sh -c 'rdma system set netns shared && ip netns add pod'\\n[Install]\\nWantedBy=multi-user.target\\n"
    )
    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    node.shell(f'printf "{unit}" >{UNIT}; systemctl enable {UNIT.rsplit("/", 1)[1]}')
    node.shell("ip netns del pod 2>/dev/null; rdma system set netns shared; ip netns add pod")
    try:
        boot = node.boot_id()
        first = reboot_with_consent(node)
        assert first.rc != 0
        assert "came back in mode shared instead of exclusive" in first.messages()
        second_boot = node.boot_id()
        assert second_boot != boot

        second = reboot_with_consent(node)
        assert second.rc != 0
        assert (
            "was rebooted for this cause already and came back in mode shared instead of exclusive" in second.messages()
        )
        assert node.boot_id() == second_boot
        assert re.search(r"cause: \w{64}", node.shell("cat /var/lib/rdmaops/reboot.yml"))
    finally:
        node.shell(f"systemctl disable {UNIT.rsplit('/', 1)[1]}; rm -f {UNIT}; ip netns del pod", check=False)
    # The fault is repaired, and the mode is switched live: no reboot is left to refuse.
    repaired = site.playbook("rdmaops.gpu_fabric.site", node.name)
    assert repaired.rc == 0, repaired.messages()
    assert node.mode() == "exclusive"
    assert node.boot_id() == second_boot


HOLDERS = {
    "a named namespace": ("ip netns add blue", "ip netns del blue", "mount"),
    "a PrivateNetwork=yes unit": (
        "systemd-run --unit=private -p PrivateNetwork=yes sleep 600",
        "systemctl stop private",
        "process",
    ),
    "a deleted namespace kept by an open file": (
        "ip netns add gone; systemd-run --unit=keeper bash -c 'exec 9</run/netns/gone; touch /run/kept; sleep 600'; "
        "while ! test -e /run/kept; do sleep 0.2; done; ip netns del gone; rm /run/kept",
        "systemctl stop keeper",
        "fd",
    ),
    "a deleted namespace kept by a socket": (
        "ip netns add gone; cat >/run/keep.py <<'END'\n"
        "import os, socket, time\n"
        "home = os.open('/proc/self/ns/net', os.O_RDONLY)\n"
        "there = os.open('/run/netns/gone', os.O_RDONLY)\n"
        "os.setns(there)\nkept = socket.socket()\nos.setns(home)\nos.close(home)\nos.close(there)\n"
        "open('/run/kept', 'w').close()\ntime.sleep(600)\n"
        "END\n"
        "systemd-run --unit=keeper python3 /run/keep.py; "
        "while ! test -e /run/kept; do sleep 0.2; done; ip netns del gone; rm /run/kept",
        "systemctl stop keeper",
        "socket",
    ),
}


@pytest.mark.parametrize("name", list(HOLDERS))
def test_blockers_are_named_and_their_end_lets_the_mode_be_switched_live(node: Machine, name: str) -> None:
    make, end, kind = HOLDERS[name]
    node.reset()
    boot = node.boot_id()
    node.shell(make)
    try:
        blocked = site.module(node.name, "rdma_system", netns_mode="exclusive")
        assert blocked["after"]["reboot_required"] is True
        assert node.mode() == "shared"
        (blocker,) = blocked["blockers"]
        assert {holder["kind"] for holder in blocker["holders"]} == {kind}
        assert blocker["holders_total"] >= 1
        holder = blocker["holders"][0]
        if kind == "mount":
            assert (blocker["name"], holder["path"]) == ("blue", "/run/netns/blue")
        else:
            assert holder["unit"] == ("private.service" if kind == "process" else "keeper.service")
            assert holder["pid"] > 1
    finally:
        node.shell(end)
    freed = site.module(node.name, "rdma_system", netns_mode="exclusive")
    assert freed["actions"] == ["Switch the RDMA subsystem from shared to exclusive"]
    assert freed["after"]["reboot_required"] is False
    assert node.mode() == "exclusive"
    assert node.boot_id() == boot
    assert node.shell(f"ls /etc/modprobe.d/{DROP_IN}")
