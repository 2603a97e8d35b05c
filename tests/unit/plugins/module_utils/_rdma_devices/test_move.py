# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moving devices, over a host whose namespaces are given by the test."""

from __future__ import annotations

import errno
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns import enter
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.child import attempt
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Holder, Namespace
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.target import Target, TargetError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import move as rdma_devices_move
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices.move import DeviceError, Host, manage
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of

HOST, BLUE, POD = 4026531833, 4026532270, 4026532271
SPACES = {
    BLUE: Namespace(BLUE, "blue", [Holder("mount", "/run/netns/blue", 1, "systemd", "init.scope", None)], 1),
    POD: Namespace(POD, None, [Holder("process", "/proc/340/ns/net", 340, "pause", None, {"uid": "u"})], 1),
}
Row = t.Dict[str, t.Any]


def device(name: str, index: int = 0, driver: str | None = "mlx5_ib", netdevs: t.Sequence[str] = ("eth1",)) -> Row:
    return {"name": name, "index": index, "driver": driver, "netdevs": list(netdevs)}


class FakeHost(Host):
    """Handles are inodes here; ``open`` are those that nobody has closed."""

    def __init__(self, places: dict[int, list[Row]], mode: str | None = "exclusive") -> None:
        self.places = {HOST: [], BLUE: [], POD: [], **places}
        self.now = mode
        self.able: set[str] | None = {"mlx5_ib"}
        self.held: list[tuple[int | None, str | None]] = [(None, "[ib_core]"), (None, "ib_mad"), (None, "mlx5_ib")]
        self.problem: str | None = None
        self.moves: list[tuple[int, int, int]] = []
        self.open_now: list[int] = []
        self.present = True
        self.lost = False
        self.move_error: OSError | None = None

    def mode(self) -> str | None:
        return self.now

    def _target(self, inode: int, text: str) -> Target:
        self.open_now.append(inode)
        return Target(inode, inode, text)

    def initial(self) -> Target:
        return self._target(HOST, "the host")

    def resolve(self, kind: str, value: t.Any) -> Target:
        known = {("netns", "blue"): BLUE, ("pid", 340): POD, ("pod", "ml/train"): POD}
        if (kind, value) not in known:
            raise TargetError(f"there is no {kind} {value}")
        return self._target(known[kind, value], f"{kind} {value}")

    def devices(self, handle: int) -> list[Row]:
        assert handle in self.open_now
        return self.places[handle]

    def other_namespaces(self) -> tuple[list[Namespace], str | None]:
        return list(SPACES.values()), self.problem

    def inside(self, spaces: t.Sequence[Namespace]) -> dict[int, t.Any]:
        return {space.inode: attempt(lambda: self.rows(space.inode)) for space in spaces}  # noqa: B023

    def rows(self, inode: int) -> t.Any:
        return self.places[inode]

    def open(self, space: Namespace) -> int:
        self.open_now.append(space.inode)
        return space.inode

    def close(self, handle: int) -> None:
        self.open_now.remove(handle)

    def netns_capable_drivers(self) -> set[str] | None:
        return self.able

    def users(self, handle: int, index: int) -> list[tuple[int | None, str | None]]:
        return self.held

    def command(self, pid: int) -> str:
        return {7: "ib_write_bw", 8: "python3"}.get(pid, "")

    def move(self, source: int, index: int, goal: int) -> None:
        if self.move_error:
            raise self.move_error
        self.moves.append((source, index, goal))
        (row,) = [row for row in self.places[source] if row["index"] == index]
        self.places[source].remove(row)
        if not self.lost:
            self.places[goal].append({**row, "netdevs": []})

    def node(self, handle: int, index: int) -> Row:
        return {"path": "/dev/infiniband/uverbs0", "major": 231, "minor": 192, "present": self.present}


def params(**given: t.Any) -> dict[str, t.Any]:
    return options_of("rdma_device", **{"name": "mlx5_0", **given})


ATTACH = [
    # option, inode, text
    ({"netns": "blue"}, BLUE, "netns blue"),
    ({"pid": 340}, POD, "pid 340"),
    ({"pod": "ml/train"}, POD, "pod ml/train"),
]


@pytest.mark.parametrize(("option", "inode", "text"), ATTACH)
def test_attach_and_again_and_detach(option: dict[str, t.Any], inode: int, text: str) -> None:
    host = FakeHost({HOST: [device("mlx5_0", 3)]})
    asked = manage(params(**option), True, host)
    assert (host.moves, host.open_now) == ([], [])
    done = manage(params(**option), False, host)
    assert (host.moves, host.open_now) == ([(HOST, 3, inode)], [])
    for result in (asked, done):
        assert result["changed"]
        assert result["actions"] == [f"Move the RDMA device mlx5_0 from the host to {text}"]
        assert [part["after"] for part in result["diff"]] == [f"{text}\n"]
        assert result["resources"][0]["status"] == "drift"
        assert result["netns"] == {"inode": HOST, "text": "the host", "initial": True}
    assert done["after"]["chardev"] == {"path": "/dev/infiniband/uverbs0", "major": 231, "minor": 192}
    assert done["warnings"] == [
        f"mlx5_0 is in {text}, where none of its network devices is (eth1 was with it before): RoCE has no GIDs there, and "
        "RDMA CM no address. Move the network device too"
    ]
    # A process that uses it keeps it: what is in place is not moved, and not refused either.
    host.held.append((7, None))
    again = manage(params(**option), False, host)
    assert (again["changed"], again["actions"], again["diff"], len(host.moves)) == (False, [], [], 1)
    assert again["resources"][0]["status"] == "in_sync"
    host.held.pop()
    back = manage(params(state="detached"), False, host)
    assert back["changed"]
    assert host.moves[1:] == [(inode, 3, HOST)]
    assert not manage(params(state="detached"), False, host)["changed"]
    assert host.open_now == []


def test_detach_in_shared_mode_has_nothing_to_do() -> None:
    host = FakeHost({HOST: [device("mlx5_0")]}, mode="shared")
    assert not manage(params(state="detached"), False, host)["changed"]


def change(**fields: t.Any) -> t.Callable[[FakeHost], None]:
    def apply(host: FakeHost) -> None:
        for name, value in fields.items():
            setattr(host, name, value)

    return apply


CORE_USERS = [(None, "ib_core"), (None, "rdma_cm")]
DOING = "Moving the RDMA device mlx5_0 from the host to netns blue: "
IN_USE = DOING + "it is in use, and a move cuts off all its users: "
NOWHERE = "No RDMA device is named mlx5_0 on this host. There are: "


def refusal(text: str, so: t.Callable[[FakeHost], None], **option: t.Any) -> tuple[t.Any, ...]:
    return so, option, text


REFUSALS = [
    refusal(
        DOING + "the RDMA subsystem is in mode shared, in which devices belong to no namespace. Switch it to exclusive "
        "first (module rdma_system, netns_mode: exclusive)",
        change(now="shared"),
    ),
    refusal(
        DOING + "its driver cannot move a device to another network namespace: mlx5_ib has no disassociate_ucontext "
        "(/proc/kallsyms). Give the pod the host's network, or a device of another driver",
        change(able={"irdma"}),
    ),
    refusal(
        IN_USE + "ib_write_bw (PID 7), python3 (PID 8), a process (PID unseen). Stop them, or set disrupt to true",
        change(held=[*CORE_USERS, (8, None), (7, None), (None, None)]),
    ),
    refusal(IN_USE + "the kernel's ib_ipoib. Stop them, or set disrupt to true", change(held=[(None, "ib_ipoib")])),
    refusal(
        f"{DOING}the kernel itself uses it (nvme_rdma, rpcrdma), for a mount, a block device or a connection that would "
        "hang. Unmount or disconnect that first; disrupt does not help here",
        change(held=[(None, "rpcrdma"), (None, "nvme_rdma"), (7, None)]),
        disrupt=True,
    ),
    refusal(
        NOWHERE + "mlx5_1, mlx5_10", change(places={HOST: [device("mlx5_1"), device("mlx5_10")], BLUE: [], POD: []})
    ),
    refusal(
        NOWHERE + "none. It may be in a namespace that was not searched: Could not look everywhere",
        change(places={HOST: [], BLUE: [], POD: []}, problem="Could not look everywhere"),
    ),
    refusal("there is no pid 99", lambda host: None, netns=None, pid=99),
]


@pytest.mark.parametrize("edge", ["open", "devices"])
def test_a_namespace_that_cannot_be_looked_into_is_named(edge: str) -> None:
    class Closed(FakeHost):
        def open(self, space: Namespace) -> int:
            if space.inode == BLUE:
                raise enter.EnterError("Could not open the network namespace blue: it is gone", errno.ENOENT)
            return super().open(space)

        def rows(self, inode: int) -> t.Any:
            if edge == "devices" and inode == BLUE:
                raise enter.EnterError("Could not list the devices of blue: EACCES", errno.EACCES)
            return super().rows(inode)

    host = Closed({HOST: [device("mlx5_1")], BLUE: [device("mlx5_0")]})
    with pytest.raises(
        rdma_devices_move.GoneError,
        match=r"There are: (mlx5_0, )?mlx5_1\. It may be in a namespace that was not searched: .*blue",
    ) as caught:
        rdma_devices_move.locate("mlx5_0", "exclusive", host)
    assert caught.value.complete is False
    assert host.open_now == []
    # What another namespace has is found all the same.
    host.places[POD] = [device("mlx5_0")]
    assert rdma_devices_move.locate("mlx5_0", "exclusive", host).inode == POD


@pytest.mark.parametrize(("so", "option", "text"), REFUSALS, ids=range(len(REFUSALS)))
@pytest.mark.parametrize("check_mode", [True, False])
def test_refusals_change_nothing(
    so: t.Callable[[FakeHost], None], option: dict[str, t.Any], text: str, check_mode: bool
) -> None:
    host = FakeHost({HOST: [device("mlx5_0")]})
    so(host)
    message = message_of((DeviceError, TargetError), manage, params(**{"netns": "blue", **option}), check_mode, host)
    assert message == text
    assert (host.moves, host.open_now) == ([], [])


def test_disrupt_moves_a_device_in_use() -> None:
    host = FakeHost({HOST: [device("mlx5_0")]})
    host.held = [(7, None), (None, "ib_ipoib")]
    result = manage(params(netns="blue", disrupt=True), False, host)
    assert result["changed"]
    assert result["users"] == [{"pid": 7, "command": "ib_write_bw"}]
    assert result["kernel_users"] == ["ib_ipoib"]


def test_a_running_pod_keeps_its_device() -> None:
    host = FakeHost({POD: [device("mlx5_0")]})
    assert message_of(DeviceError, manage, params(netns="blue"), False, host) == (
        "Moving the RDMA device mlx5_0 from pod with the UID u to netns blue: the pod is running and holds it. Delete it, choose "
        "a free device, or set disrupt to true"
    )
    assert not host.moves
    assert not host.open_now
    assert manage(params(netns="blue", disrupt=True), False, host)["changed"]


def test_a_pods_device_can_be_taken_back_to_the_host() -> None:
    host = FakeHost({POD: [device("mlx5_0")]})
    assert manage(params(state="detached"), False, host)["changed"]
    assert host.moves == [(POD, 0, HOST)]


def test_a_driver_of_which_nothing_is_known_is_tried() -> None:
    host = FakeHost({HOST: [device("mlx5_0", driver=None)]})
    host.move_error = enter.EnterError("Could not move it: EOPNOTSUPP", errno.EOPNOTSUPP)
    with pytest.raises(enter.EnterError, match="EOPNOTSUPP"):
        manage(params(netns="blue"), False, host)
    assert host.open_now == []


def test_from_one_namespace_to_another() -> None:
    host = FakeHost({BLUE: [device("mlx5_0", 2)]})
    host.able = set()
    result = manage(params(pod="ml/train"), False, host)
    assert host.moves == [(BLUE, 2, POD)]
    assert result["actions"] == ["Move the RDMA device mlx5_0 from netns blue to pod ml/train"]


@pytest.mark.parametrize(
    ("so", "text"),
    [
        (change(lost=True), "the kernel reported success, but the device is not there"),
        (
            change(present=False),
            "its character device /dev/infiniband/uverbs0 (231:192) is missing, so no program can open it",
        ),
    ],
)
def test_the_result_is_proven(so: t.Callable[[FakeHost], None], text: str) -> None:
    host = FakeHost({HOST: [device("mlx5_0")]})
    so(host)
    assert text in message_of(DeviceError, manage, params(netns="blue"), False, host)
    assert host.open_now == []


def test_a_device_may_have_another_name_at_home() -> None:
    class Renaming(FakeHost):
        def move(self, source: int, index: int, goal: int) -> None:
            super().move(source, index, goal)
            self.places[goal][0]["name"] = "rocep7s0f0"

    host = Renaming({BLUE: [device("mlx5_0")]})
    assert manage(params(state="detached"), False, host)["after"]["name"] == "rocep7s0f0"


def test_names_of_the_core_are_left_out() -> None:
    location = rdma_devices_move.Location(0, BLUE, BLUE, "netns blue", False, "mlx5_ib", [], "mlx5_0")
    host = FakeHost({})
    assert rdma_devices_move.use(location, host) == rdma_devices_move.Use([], [])


GUID, OTHER_GUID = "b8ce:f603:00aa:0001", "b8ce:f603:00aa:0002"


def namesakes() -> FakeHost:
    """From Linux 7.3 on, a name is unique in its namespace only."""
    rows = {HOST: device("mlx5_0", 1), BLUE: device("mlx5_0", 2), POD: device("mlx5_0", 3)}
    guids = {HOST: "b8ce:f603:00aa:0000", BLUE: GUID, POD: OTHER_GUID}
    return FakeHost({inode: [{**row, "node_guid": guids[inode]}] for inode, row in rows.items()})


def test_a_device_is_found_by_its_node_guid() -> None:
    host = namesakes()
    result = manage(params(name=GUID, state="detached"), False, host)
    assert (host.moves, host.open_now) == ([(BLUE, 2, HOST)], [])
    assert (result["name"], result["actions"]) == (
        "mlx5_0",
        ["Move the RDMA device mlx5_0 from netns blue to the host"],
    )


def test_a_name_of_several_devices_is_refused() -> None:
    host = namesakes()
    host.places[HOST].clear()
    assert message_of(DeviceError, manage, params(state="detached"), False, host) == (
        "Several RDMA devices of this host are named mlx5_0: that with the node GUID b8ce:f603:00aa:0001 in netns blue, "
        "that with the node GUID b8ce:f603:00aa:0002 in pod with the UID u. Give the node GUID instead of the name"
    )
    assert (host.moves, host.open_now) == ([], [])


def test_a_guid_that_is_zero_is_none() -> None:
    zero = "0000:0000:0000:0000"
    host = FakeHost({HOST: [{**device("mlx5_0"), "node_guid": zero}]})
    assert message_of(DeviceError, manage, params(name=zero, state="detached"), False, host).startswith(
        f"No RDMA device is named {zero} on this host. There are: mlx5_0"
    )
