# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the traffic of a pod went over, by two looks at its counters."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._transport.judge import Sample, judge, together

Json = t.Any
IDLE_BELOW = 65536.0
SECONDS = 10.0
MIB = 1 << 20

# Of drivers: names, units in a MiB, and what it counts that is not used here.
DRIVERS: dict[str, tuple[str, str, int, dict[str, int]]] = {
    "mlx5": ("port_xmit_data", "port_rcv_data", MIB // 4, {}),
    "irdma": ("ip4OutOctets", "ip4InOctets", MIB, {"ip6OutOctets": 0, "ip6InOctets": 0}),
    "bnxt_re and efa": ("tx_bytes", "rx_bytes", MIB, {}),
    "erdma": ("tx_bytes_cnt", "rx_bytes_cnt", MIB, {}),
    "erdma of Alibaba Cloud": ("hw_tx_bytes_cnt", "hw_rx_bytes_cnt", MIB, {}),
    "soft-RoCE since Linux 7.2": ("sent_bytes", "rcvd_bytes", MIB, {}),
}


def verdict(
    ports: Json, after_ports: Json, netdev_bytes: int, *, shared: bool | None = False, host_network: bool = False
) -> Json:
    before = Sample(100.0, ports, {"lo": 0, "eth0": 5000}, shared)
    after = Sample(100.0 + SECONDS, after_ports, {"lo": 100 * MIB, "eth0": 5000 + netdev_bytes}, shared)
    return judge(before, after, IDLE_BELOW, host_network)


def rise(driver: str, sent_mib: int, received_mib: int) -> tuple[Json, Json]:
    sent, received, unit, others = DRIVERS[driver]
    before = {sent: 7, received: 9, **others}
    after = {**before, sent: 7 + sent_mib * unit, received: 9 + received_mib * unit}
    return {"dev_0/1": before}, {"dev_0/1": after}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("netdev_mib", [0, 100])
@pytest.mark.parametrize("direction", [(50, 0), (0, 50)])
def test_a_pod_that_sends_or_receives_over_rdma(driver: str, netdev_mib: int, direction: tuple[int, int]) -> None:
    result = verdict(*rise(driver, *direction), netdev_mib * MIB)
    assert (result["transport"], result["why"]) == ("rdma", None)
    assert result["rdma"] == {"dev_0/1": {"bytes_per_second": 5.0 * MIB, "packets_per_second": None}}
    assert result["netdevs"] == {"eth0": netdev_mib * MIB / SECONDS}


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pod_that_has_rdma_and_does_not_use_it(driver: str) -> None:
    assert verdict(*rise(driver, 0, 0), 100 * MIB)["transport"] == "tcp"
    assert verdict(*rise(driver, 0, 0), 1000)["transport"] == "idle"


def test_soft_roce_counted_packets() -> None:
    before, after = {"sent_pkts": 10, "rcvd_pkts": 10}, {"sent_pkts": 1010, "rcvd_pkts": 20}
    result = verdict({"rxe0/1": before}, {"rxe0/1": after}, MIB)
    assert result["rdma"] == {"rxe0/1": {"bytes_per_second": None, "packets_per_second": 101.0}}
    assert result["transport"] == "rdma"
    # Connections are looked after with a few packets.
    quiet = {"sent_pkts": 110, "rcvd_pkts": 110}
    assert verdict({"rxe0/1": before}, {"rxe0/1": quiet}, 100 * MIB)["transport"] == "tcp"


def test_a_pod_without_rdma_devices() -> None:
    assert [verdict({}, {}, number)["transport"] for number in (100 * MIB, 0)] == ["tcp", "idle"]


BUSY = rise("mlx5", 50, 0)
STILL = rise("mlx5", 0, 0)
SHARED = "in RDMA mode shared, they count what all pods of the node do"
# both looks, what network devices carried, what differs, what is said
UNKNOWN: dict[str, tuple[tuple[Json, Json], int, Json, str]] = {
    "shared": (BUSY, 0, {"shared": True}, f"its RDMA devices are busy, but {SHARED}"),
    "maybe shared": (
        BUSY, 0, {"shared": None}, f"its RDMA devices are busy, but the RDMA mode cannot be read, and {SHARED}",
    ),
    "the host's devices": (
        BUSY, 0, {"host_network": True}, "its RDMA devices are busy, but they are the node's, which others may use, too",
    ),
    "the host's network": (
        STILL, 100 * MIB, {"host_network": True}, "network devices are busy, but they are the node's, which others use, too",
    ),
    "no counters": (({"d/1": {}}, {"d/1": {}}), 100 * MIB, {}, "d/1 counts neither bytes nor packets of RDMA"),
    "reset": ((BUSY[1], BUSY[0]), 0, {}, "the counters of dev_0/1 went backwards: they were reset"),
    "reset network devices": (STILL, -1, {}, "the counters of its network devices went backwards"),
    "moved": (({}, STILL[1]), 0, {}, "its RDMA devices are others than before"),
    "full": (
        ({"d/1": {"port_xmit_data": 0xFFFFFFFF, "port_rcv_data": 0}},) * 2, 0, {},
        "a counter of d/1 is full, and does not rise any more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_has_a_reason(name: str) -> None:
    (before, after), netdev_bytes, more, why = UNKNOWN[name]
    result = verdict(before, after, netdev_bytes, **more)
    assert (result["transport"], result["why"]) == ("unknown", why)


@pytest.mark.parametrize(
    ("more", "netdev_bytes", "transport"),
    [({"shared": True}, 100 * MIB, "tcp"), ({"shared": True}, 0, "idle"), ({"host_network": True}, 0, "idle")],
)
def test_what_is_known_of_devices_that_others_share(more: Json, netdev_bytes: int, transport: str) -> None:
    """Counters that stand still exclude this pod, too."""
    assert verdict(*STILL, netdev_bytes, **more)["transport"] == transport


def test_one_word_for_several_pods() -> None:
    order = ["unknown", "tcp", "rdma", "idle"]
    for first, second in itertools.combinations(order, 2):
        assert together([second, first, second]) == first
    assert together([]) == "unknown"
