# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA utils on a real kernel with soft-RoCE, against `rdma` of iproute2; a node is left as it was."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import lab_ssh

pytestmark = pytest.mark.lab

SWITCH = """
try:
    nldev.sys_set_netns_mode(sys.argv[1])
    print("ok")
except nldev.NldevError as exc:
    print(exc.name)
"""
OTHERS = """
print(json.dumps([dict(row._asdict(), holders=[one._asdict() for one in row.holders]) for row in netns.others()]))
"""


def switch(node: lab_ssh.Guest, mode: str) -> str:
    return node.python(SWITCH, mode).strip()


def others(node: lab_ssh.Guest) -> list[dict[str, t.Any]]:
    return t.cast("list[dict[str, t.Any]]", json.loads(node.python(OTHERS)))


def live(node: lab_ssh.Guest) -> str:
    return node.python("print(sysfs.live_mode())").strip()


def switched_within(node: lab_ssh.Guest, mode: str, seconds: float) -> None:
    """The kernel takes namespaces down in the background: EBUSY may last a moment longer."""
    deadline = time.monotonic() + seconds
    while (expected := switch(node, mode)) != "ok":
        assert (expected, time.monotonic() < deadline) == ("EBUSY", True)
        time.sleep(0.3)
    assert live(node) == mode
    assert node.run("rdma", "system").split()[:2] == ["netns", mode]


@pytest.fixture
def other_mode(node: lab_ssh.Guest) -> t.Iterator[str]:
    """The mode that the node is not in; afterwards it is in the old one again."""
    before = live(node)
    # Units with PrivateNetwork=yes that D-Bus starts (systemd-hostnamed) leave after half a minute.
    deadline = time.monotonic() + 90
    while blockers := others(node):
        assert time.monotonic() < deadline, blockers
        time.sleep(2)
    try:
        yield "shared" if before == "exclusive" else "exclusive"
    finally:
        switched_within(node, before, 30)


def test_settings_devices_and_ports_are_what_rdma_prints(node: lab_ssh.Guest) -> None:
    program = """
print(json.dumps({
    "system": nldev.sys_get()._asdict(),
    "dev": [row._asdict() for row in nldev.devices()],
    "link": [port._asdict() for row in nldev.devices() for port in nldev.ports(row.index)],
    "resource": [row._asdict() for row in nldev.resources()],
    "names": sysfs.devices(),
    "mode": sysfs.live_mode(),
    "available": kernel.available(),
}))
"""
    ours = json.loads(node.python(program))
    system = node.run("rdma", "system").split()
    assert dict(zip(system[::2], system[1::2], strict=True)) == {
        "netns": ours["system"]["netns_mode"],
        "privileged-qkey": "on" if ours["system"]["privileged_qkey"] else "off",
        "monitor": "on" if ours["system"]["monitor"] else "off",
        "copy-on-fork": "on" if ours["system"]["copy_on_fork"] else "off",
    }
    assert ours["mode"] == ours["system"]["netns_mode"]
    devices = json.loads(node.run("rdma", "-j", "dev"))
    assert devices
    assert [
        (row["index"], row["name"], row["node_type"], row["protocol"], row["node_guid"], row["sys_image_guid"])
        for row in ours["dev"]
    ] == [
        (row["ifindex"], row["ifname"], row["node_type"], row["protocol"], row["node_guid"], row["sys_image_guid"])
        for row in devices
    ]
    assert ours["names"] == sorted(row["ifname"] for row in devices)
    keys = ("port", "state", "physical_state", "netdev", "netdev_index")
    assert [(row["name"], *(row[key] for key in keys)) for row in ours["link"]] == [
        (row["ifname"], *(row.get(key) for key in keys)) for row in json.loads(node.run("rdma", "-j", "link"))
    ]
    assert [
        {"ifindex": row["index"], "ifname": row["name"], **row["counts"]} for row in ours["resource"]
    ] == json.loads(node.run("rdma", "-j", "resource", "show"))
    loaded, how, path = ours["available"]
    assert (loaded, how) == (True, "module")
    assert node.run("modinfo", "-n", "ib_core").strip().endswith(path)


def test_mode_there_and_back(node: lab_ssh.Guest, other_mode: str) -> None:
    before = live(node)
    switched_within(node, other_mode, 5)
    # The mode in force is taken at any time.
    assert switch(node, other_mode) == "ok"
    switched_within(node, before, 5)


def blocked(
    node: lab_ssh.Guest, mode: str, until: t.Callable[[list[dict[str, t.Any]]], bool]
) -> list[dict[str, t.Any]]:
    """The holders of the one namespace that keeps the mode from being switched."""
    deadline = time.monotonic() + 60
    while not (len(blockers := others(node)) == 1 and until(blockers[0]["holders"])):
        assert time.monotonic() < deadline, blockers
        time.sleep(0.5)
    assert switch(node, mode) == "EBUSY"
    assert live(node) != mode
    assert blockers[0]["holders_total"] == len(blockers[0]["holders"])
    return t.cast("list[dict[str, t.Any]]", blockers[0]["holders"])


def test_named_namespace_blocks(node: lab_ssh.Guest, other_mode: str) -> None:
    node.shell("ip netns add rdmaops-test")
    try:
        holders = blocked(node, other_mode, bool)
        assert [(row["kind"], row["path"], row["pid"]) for row in holders] == [("mount", "/run/netns/rdmaops-test", 1)]
        assert others(node)[0]["name"] == "rdmaops-test"
    finally:
        node.shell("ip netns del rdmaops-test")
    switched_within(node, other_mode, 10)


def test_private_network_unit_blocks(node: lab_ssh.Guest, other_mode: str) -> None:
    node.shell("systemd-run -q --unit=rdmaops-test -p PrivateNetwork=yes sleep 600")
    try:
        (row,) = blocked(node, other_mode, lambda rows: [row["command"] for row in rows] == ["/usr/bin/sleep 600"])
        pid = int(node.run("systemctl", "show", "-P", "MainPID", "rdmaops-test"))
        # "started" tells it from a later process with its PID.
        assert row.pop("started") > 0
        assert row == {
            "kind": "process",
            "path": f"/proc/{pid}/ns/net",
            "pid": pid,
            "command": "/usr/bin/sleep 600",
            "unit": "rdmaops-test.service",
            "pod": None,
            "foreign": False,
        }
    finally:
        node.shell("systemctl stop rdmaops-test")
    switched_within(node, other_mode, 10)


HOLD = """
import ctypes, os, socket, time
handle = os.open("/run/netns/rdmaops-test", os.O_RDONLY)
home = os.open("/proc/self/ns/net", os.O_RDONLY)
{hold}
open("/run/rdmaops-test.ready", "w").close()
time.sleep(600)
"""
SOCKET = """
libc = ctypes.CDLL(None)
assert libc.setns(handle, 0x40000000) == 0
held = socket.socket()
assert libc.setns(home, 0x40000000) == 0
os.close(handle)
"""


@pytest.mark.parametrize(("kind", "hold"), [("fd", ""), ("socket", SOCKET)])
def test_what_holds_a_deleted_namespace_blocks(node: lab_ssh.Guest, other_mode: str, kind: str, hold: str) -> None:
    node.run("tee", "/run/rdmaops-test.py", stdin=HOLD.format(hold=hold).encode())
    try:
        node.shell(
            "ip netns add rdmaops-test; systemd-run -q --unit=rdmaops-test python3 /run/rdmaops-test.py; "
            "timeout 60 sh -c 'until test -e /run/rdmaops-test.ready; do sleep 0.2; done'; "
            'ip netns del rdmaops-test; test -z "$(ip netns list)"',
        )
        (row,) = blocked(node, other_mode, lambda rows: [row["kind"] for row in rows] == [kind])
        pid = int(node.run("systemctl", "show", "-P", "MainPID", "rdmaops-test"))
        assert row["pid"] == pid
        assert row["path"].startswith(f"/proc/{pid}/fd/")
        assert row["unit"] == "rdmaops-test.service"
        assert row["command"].endswith("python3 /run/rdmaops-test.py")
    finally:
        node.shell("systemctl stop rdmaops-test; rm -f /run/rdmaops-test.py /run/rdmaops-test.ready", check=False)
        node.shell("ip netns del rdmaops-test", check=False)
    switched_within(node, other_mode, 10)


LINK = """
def names():
    return [row.name for row in nldev.devices()]
before = names()
nldev.link_add("rdmaopstest", "rxe", "rdmaopstest")
(added,) = [row for row in nldev.devices() if row.name not in before]
verbs = nldev.chardev(added.index, "uverbs")
status = os.stat("/dev/infiniband/" + verbs.name) if os.path.exists("/dev/infiniband/" + verbs.name) else None
said = [added.name, nldev.ports(added.index)[0].netdev, status is None or status.st_rdev == os.makedev(*verbs[2:])]
nldev.link_del(added.index)
print(json.dumps([*said, names() == before]))
"""
# The device is born in the initial namespace, whatever its network device is in.
MOVE = """
import subprocess
inside = "import os, sys; sys.path.insert(0, %r)\\n" % sys.path[0]
inside += "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import nldev\\n"
def within(program):
    argv = ["ip", "netns", "exec", "rdmaops-test", sys.executable, "-B", "-c", inside + program]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout.split()
within("nldev.link_add('rdmaopstest', 'rxe', 'rdmaopstest')")
index = next(row.index for row in nldev.devices() if row.name == "rdmaopstest")
seen = []
def look():
    here = "rdmaopstest" in [row.name for row in nldev.devices()]
    there = "rdmaopstest" in within("print(*[row.name for row in nldev.devices()])")
    seen.append([here, there])
look()
target = os.open("/run/netns/rdmaops-test", os.O_RDONLY)
nldev.set_netns(index, target)
look()
try:
    nldev.set_netns(index, target)
    seen.append("moved")
except nldev.NldevError as exc:
    seen.append(exc.name)
within("nldev.set_netns(%d, os.open('/proc/1/ns/net', os.O_RDONLY))" % index)
look()
nldev.link_del(index)
look()
print(json.dumps(seen))
"""


UTILS = "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils."
AUDIT = """
rows = audit.audit([], 0, audit.AuditHost())["resources"]
print(json.dumps([[row["status"], row["live"], row["node_guid"]] for row in rows if row["name"] == "rdmaopstest"]))
"""
BACK = """
nothing = dict.fromkeys(("netns", "pid", "container", "pod"))
try:
    result = move.manage({**nothing, "name": sys.argv[1], "state": "detached", "disrupt": False}, False, move.Host())
    print(result["after"]["name"])
except FabricError as exc:
    print(exc)
"""


def test_two_devices_of_one_name(node: lab_ssh.Guest, other_mode: str) -> None:
    """Names are unique per network namespace from Linux 7.3 on (rdma_dev_pick_netns_name() in the kernel's
    drivers/infiniband/core/device.c), and a device returns under another name if its own is taken.
    """
    if live(node) != "exclusive":
        switched_within(node, "exclusive", 5)
    audit = UTILS + "_rdma_devices import audit\n" + AUDIT
    back = UTILS + "_errors import FabricError\n" + UTILS + "_rdma_devices import move\n" + BACK

    def devices() -> dict[str, str]:
        return {row["node_guid"]: row["ifname"] for row in json.loads(node.run("rdma", "-j", "dev"))}

    before = devices()
    node.shell(
        "ip netns add rdmaops-test; ip link add rdmaops0 type dummy; ip link add rdmaops1 type dummy; "
        "ip link set rdmaops0 up; ip link set rdmaops1 up; rdma link add rdmaopstest type rxe netdev rdmaops0; "
        "rdma dev set rdmaopstest netns rdmaops-test; rdma link add rdmaopstest type rxe netdev rdmaops1"
    )
    try:
        (here,) = set(devices()) - set(before)
        (there,) = {guid for _status, _live, guid in json.loads(node.python(audit))} - {here}
        # Devices of one name come in no particular order.
        assert sorted(json.loads(node.python(audit))) == [
            ["drift", "netns rdmaops-test, held by /run/netns/rdmaops-test", there],
            ["in_sync", "the host", here],
        ]
        # The name is that of the host's own, which is at home.
        assert node.python(back, "rdmaopstest").strip() == "rdmaopstest"
        refused = node.python(back, there).strip()
        assert "Another RDMA device in that network namespace has its name" in refused
        node.shell("ip netns del rdmaops-test; timeout 30 sh -c 'until rdma dev | grep -q ibdev; do sleep 0.5; done'")
        returned = devices()
        assert returned[here] == "rdmaopstest"
        assert returned[there].startswith("ibdev")
        assert json.loads(node.python(audit)) == [["in_sync", "the host", here]]
    finally:
        node.shell("ip netns del rdmaops-test", check=False)
        node.shell("ip link del rdmaops0; ip link del rdmaops1")
    assert devices() == before


def test_link_made_and_deleted(node: lab_ssh.Guest) -> None:
    node.shell("ip link add rdmaopstest type dummy; ip link set rdmaopstest up")
    try:
        assert json.loads(node.python(LINK)) == ["rdmaopstest", "rdmaopstest", True, True]
    finally:
        node.shell("ip link del rdmaopstest")


def test_device_moved_and_brought_back(node: lab_ssh.Guest, other_mode: str) -> None:
    if other_mode == "exclusive":
        switched_within(node, "exclusive", 5)
    elif live(node) != "exclusive":
        raise AssertionError(live(node))
    node.shell("ip netns add rdmaops-test; ip link add rdmaopstest netns rdmaops-test type dummy")
    try:
        node.shell("ip -n rdmaops-test link set rdmaopstest up")
        # seen in (the initial namespace, the other one); the second move is asked for where the device is not
        assert json.loads(node.python(MOVE)) == [
            [True, False],
            [False, True],
            "EINVAL",
            [True, False],
            [False, False],
        ]
    finally:
        node.shell("ip netns del rdmaops-test")
