# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rdma_info against the tools, and devices that move, on real kernels with real traffic."""

from __future__ import annotations

import json
import re
import time
import typing as t

import pytest
from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support import site
from ansible_collections.rdmaops.gpu_fabric.tests.support.hosts import rail_address

EVERYTHING = ["gids", "pkeys", "counters", "hw_counters", "active_mtu"]
Nodes = dict[str, Host]


def module(kind: str, /, check: bool = False, node: str = "gpu-1", **options: t.Any) -> dict[str, t.Any]:
    return site.module(node, kind, check, **options)


def inside(space: str | None, command: str) -> str:
    return f"ip netns exec {space} {command}" if space else command


def printed(node: Host, space: str | None, name: str) -> dict[str, t.Any]:
    """Return what the field's own tools print about a device and its only port, in the shape of rdma_info."""
    (dev,) = json.loads(node.check_output(inside(space, f"rdma -j dev show {name}")))
    (link,) = json.loads(node.check_output(inside(space, f"rdma -j link show {name}/1")))
    place = f"/sys/class/infiniband/{name}/ports/1"
    files = node.check_output(inside(space, f"cat {place}/rate {place}/link_layer {place}/pkeys/0"))
    rate, layer, pkey = files.splitlines()
    mtu = node.check_output(inside(space, f"cat /sys/class/net/{link['netdev']}/mtu"))
    verbs = node.check_output(inside(space, f"ibv_devinfo -v -d {name}"))
    return {
        "index": dev["ifindex"],
        "name": dev["ifname"],
        "node_type": dev["node_type"],
        "node_guid": dev["node_guid"],
        "sys_image_guid": dev["sys_image_guid"],
        "state": link["state"],
        "physical_state": link["physical_state"],
        "netdev": link["netdev"],
        "netdev_mtu": int(mtu),
        "rate": rate,
        "link_layer": layer,
        "pkeys": [pkey],
        "active_mtu": int(re.findall(r"active_mtu:\s+(\d+)", verbs)[0]),
        "gids": [int(index) for index in re.findall(r"GID\[\s*(\d+)\]:", verbs)],
    }


def reported(device: dict[str, t.Any]) -> dict[str, t.Any]:
    (port,) = device["ports"]
    both = {**port, **device}
    keys = ["index", "name", "node_type", "node_guid", "sys_image_guid", "state", "physical_state", "netdev"]
    keys += ["netdev_mtu", "rate", "link_layer", "pkeys", "active_mtu"]
    return {**{key: both[key] for key in keys}, "gids": [gid["index"] for gid in port["gids"]]}


def test_info_reports_what_the_tools_print_in_every_namespace(first: Host, away: str) -> None:
    module("rdma_link", name="rxe1", netdev="rail1", netns=away)
    info = module("rdma_info", gather=EVERYTHING, all_netns=True)
    assert info["unreadable"] == []
    assert info["netns_mode"] == "exclusive"
    by_name = {device["name"]: device for device in info["devices"]}
    assert reported(by_name["rxe0"]) == printed(first, None, "rxe0")
    assert reported(by_name["rxe1"]) == printed(first, away, "rxe1")
    assert by_name["rxe0"]["netns"] == {
        "inode": int(first.check_output("stat -Lc %i /proc/1/ns/net")),
        "name": None,
        "initial": True,
    }
    assert by_name["rxe1"]["netns"] == {
        "inode": int(first.check_output(f"stat -Lc %i /run/netns/{away}")),
        "name": away,
        "initial": False,
    }
    assert [device["can_change_netns"] for device in by_name.values()] == [True, True]
    (ipv4,) = [gid for gid in by_name["rxe1"]["ports"][0]["gids"] if gid["ipv4"]]
    assert (ipv4["ipv4"], ipv4["type"], ipv4["netdev"]) == (rail_address(first, 1), "RoCE v2", "rail1")
    counters = by_name["rxe0"]["ports"][0]["hw_counters"]
    listed = first.check_output("ls /sys/class/infiniband/rxe0/ports/1/hw_counters").split()
    assert sorted(counters) == sorted(set(listed) - {"lifespan"})
    # Without all_netns the device of another namespace is not reported.
    assert [device["name"] for device in module("rdma_info")["devices"]] == ["rxe0"]


def test_a_device_whose_files_give_errors_is_unreadable(first: Host) -> None:
    # A read of /proc/1/mem at 0 is an I/O error, which no text file gives by itself.
    path = "/sys/class/infiniband/rxe1/ports/1/rate"
    first.check_output(f"mount --bind /proc/1/mem {path}")
    try:
        info = module("rdma_info")
    finally:
        first.check_output(f"umount {path}")
    assert [(line["device"], line["what"], line["error"]) for line in info["unreadable"]] == [
        ("rxe1", "ports/1/rate", "EIO (Input/output error)")
    ]
    rates = {device["name"]: device["ports"][0]["rate_gbps"] for device in info["devices"]}
    assert rates == {"rxe0": 2.5, "rxe1": None}


def serve(node: Host, name: str, command: str) -> None:
    """Start a server that outlives the connection, and wait for it to listen."""
    node.check_output(f"systemd-run --quiet --collect --unit={name} timeout 300 {command}")
    time.sleep(4)


def test_moved_devices_carry_traffic_and_a_second_call_cuts_nothing(nodes: Nodes, first: Host, away: str) -> None:
    """The four-step drill of both modules, with rping, ib_write_bw and ib_write_bw -R between the two machines."""
    second = nodes["gpu-2"]
    for name in nodes:
        link: dict[str, t.Any] = {"node": name, "name": "rxe1", "netdev": "rail1", "netns": away}
        assert module("rdma_link", check=True, **link)["changed"]
        assert module("rdma_link", **link)["changed"]
        assert not module("rdma_link", **link)["changed"]
        assert not module("rdma_link", check=True, **link)["changed"]
    address = rail_address(first, 1)
    serve(first, "rping", inside(away, f"rping -s -v -a {address} -C 3"))
    pings = second.check_output(inside(away, f"timeout 60 rping -c -v -a {address} -C 3"))
    assert pings.count("ping data: rdma-ping-") == 3
    for number, more in enumerate(("-x 1", "-R")):
        bandwidth = f"ib_write_bw -d rxe1 {more} -p {18600 + number} -n 200 -F"
        serve(first, f"bw-{number}", inside(away, bandwidth))
        assert "BW average" in second.check_output(inside(away, f"timeout 60 {bandwidth} {address}"))

    bandwidth = "ib_write_bw -d rxe1 -x 1 -p 18610 -D 90 -F"
    serve(first, "long", inside(away, bandwidth))
    serve(
        second,
        "long",
        inside(away, f"{bandwidth} {address} > /run/long.txt 2>&1; echo rc=$? >> /run/long.txt").join(["sh -c '", "'"]),
    )
    users = first.check_output(inside(away, "rdma resource show qp link rxe1"))
    assert "ib_write_bw" in users
    again = module("rdma_device", name="rxe1", netns=away)
    assert (again["changed"], again["actions"]) == (False, [])
    pid = first.check_output(f"ip netns pids {away}").split()[0]
    assert not module("rdma_device", name="rxe1", pid=int(pid))["changed"]
    second.check_output("for _ in $(seq 150); do grep -q rc= /run/long.txt && break; sleep 1; done")
    assert second.check_output("cat /run/long.txt").endswith("rc=0")


def test_attach_by_name_path_and_pid_and_detach(first: Host) -> None:
    first.check_output("ip netns add blue")
    pid = first.check_output("ip netns exec blue sh -c 'sleep 300 > /dev/null 2>&1 & echo $!'")
    for target in ({"netns": "blue"}, {"netns": "/run/netns/blue"}, {"pid": int(pid)}):
        planned = module("rdma_device", check=True, name="rxe1", **target)
        assert "rxe1" in first.check_output("rdma link")
        done = module("rdma_device", name="rxe1", **target)
        for result in (planned, done):
            assert result["changed"], result
            assert len(result["actions"]) == 1
        assert "rxe1" in first.check_output("ip netns exec blue rdma dev")
        assert "rxe1" not in first.check_output("rdma dev")
        path = done["after"]["chardev"]["path"]
        assert first.check_output(f"stat -c %t:%T {path}") == "%x:%x" % (
            done["after"]["chardev"]["major"],
            done["after"]["chardev"]["minor"],
        )
        assert not module("rdma_device", name="rxe1", **target)["changed"]
        back = module("rdma_device", name="rxe1", state="detached")
        assert back["actions"] == ["Move the RDMA device rxe1 from netns blue to the host"]
        assert "netdev rail1" in first.check_output("rdma link show rxe1/1")
        assert not module("rdma_device", name="rxe1", state="detached")["changed"]


def test_refusals_state_the_reason_and_change_nothing(first: Host) -> None:
    # The server side of NVMe over Fabrics listens on the device of the first rail.
    first.check_output(
        "modprobe -a nvmet nvmet-rdma; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config; "
        "mkdir -p /sys/kernel/config/nvmet/ports/1; cd /sys/kernel/config/nvmet/ports/1; echo rdma > addr_trtype; "
        f"echo ipv4 > addr_adrfam; echo {rail_address(first, 0)} > addr_traddr; echo 4420 > addr_trsvcid; "
        "mkdir -p /sys/kernel/config/nvmet/subsystems/t; ln -s /sys/kernel/config/nvmet/subsystems/t subsystems/t"
    )
    try:
        serve(first, "held", f"rping -s -a {rail_address(first, 1)} -P")
        first.check_output("ip netns add blue")
        before = first.check_output("rdma dev; ip netns exec blue rdma dev")
        reasons = {
            "rxe0": "the kernel itself uses it (nvmet_rdma)",
            "rxe1": "it is in use, and a move cuts off all its users: rping (PID ",
            "rxe9": "No RDMA device is named rxe9 on this host. There are: rxe0, rxe1",
        }
        for name, text in reasons.items():
            for check in (True, False):
                result = module("rdma_device", check=check, name=name, netns="blue")
                assert result["failed"], result
                assert text in result["msg"]
        assert module("rdma_device", name="rxe0", netns="blue", disrupt=True)["failed"]
        ended = module("rdma_device", name="rxe1", pid=4194304)
        assert "No process has the PID 4194304 (any longer)" in ended["msg"]
        assert "No network namespace is named green" in module("rdma_device", name="rxe1", netns="green")["msg"]
        assert first.check_output("rdma dev; ip netns exec blue rdma dev") == before
        moved = module("rdma_device", name="rxe1", netns="blue", disrupt=True)
        assert (moved["changed"], moved["users"][0]["command"]) == (True, "rping")
    finally:
        first.check_output(
            "cd /sys/kernel/config/nvmet && rm -f ports/1/subsystems/t && rmdir ports/1 subsystems/t; "
            "modprobe -r nvmet-rdma; true"
        )


# The kernel's own soft-RoCE instead of the lab's: up to 7.2 it cannot move, and since 7.3 it can.
STOCK = """
rdma link delete rxe0; rdma link delete rxe1; modprobe -r rdma_rxe; modprobe -a ib_uverbs udp_tunnel ip6_udp_tunnel
python3 -c 'import lzma,sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())' \\
  /lib/modules/$(uname -r)/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz > /run/stock.ko
insmod /run/stock.ko
rdma link add rxe1 type rxe netdev rail1
ip netns add blue
"""
LAB = """
ip netns exec blue rdma link delete rxe1 || rdma link delete rxe1
modprobe -r rdma_rxe; rm /run/stock.ko
"""


def test_whether_a_driver_can_move_is_known_before_it_is_tried(first: Host) -> None:
    """What rdma_info and check mode say is what the kernel does."""
    first.check_output(STOCK)
    try:
        (device,) = module("rdma_info", gather=[])["devices"]
        planned = module("rdma_device", check=True, name="rxe1", netns="blue")
        moved = first.run("rdma dev set rxe1 netns blue")
    finally:
        first.check_output(LAB)
    can = moved.rc == 0
    assert (device["can_change_netns"], device["can_change_netns_source"]) == (
        can,
        f"rdma_rxe has {'' if can else 'no '}disassociate_ucontext (/proc/kallsyms)",
    ), moved.stderr
    assert bool(planned.get("failed")) == (not can), planned
    assert planned["changed"] == can, planned


def test_shared_mode_is_explained(first: Host) -> None:
    first.check_output("rdma system set netns shared")
    try:
        first.check_output("ip netns add blue")
        result = module("rdma_device", name="rxe1", netns="blue")
        assert "the RDMA subsystem is in mode shared, in which devices belong to no namespace" in result["msg"]
        assert not module("rdma_device", name="rxe1", state="detached")["changed"]
    finally:
        first.check_output(
            "ip netns del blue; for _ in $(seq 20); do rdma system set netns exclusive && break; sleep 1; done"
        )


BAD = [
    # module, options, text
    (
        "rdma_device",
        {"name": "rxe1"},
        "state is attached but any of the following are missing: netns, pid, container, pod",
    ),
    (
        "rdma_device",
        {"name": "rxe1", "netns": "a", "pid": 1},
        "parameters are mutually exclusive: netns|pid|container|pod",
    ),
    (
        "rdma_device",
        {"name": "rxe1", "state": "detached", "netns": "a"},
        "state=detached takes the device back to the host and finds it by itself: leave netns out",
    ),
    ("rdma_device", {"name": "rxe1", "container": "x"}, "'x' is not a valid container ID"),
    ("rdma_info", {"gather": ["all"]}, "value of gather must be one or more of"),
    ("rdma_link", {"name": "rxe5"}, "state is present but all of the following are missing: netdev"),
    ("rdma_link", {"name": "rxe5", "netdev": "rail7"}, "no network device rail7 in the host"),
    ("rdma_link", {"name": "rxe0", "netdev": "rail1"}, "a device of that name already exists"),
]


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize(("name", "options", "text"), BAD, ids=range(len(BAD)))
def test_bad_input(name: str, options: dict[str, t.Any], text: str) -> None:
    result = module(name, **options)
    assert result["failed"]
    assert text in result["msg"]
