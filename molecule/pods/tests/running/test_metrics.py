# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus sees of devices on hosts and in pods, while they are used and when something happens to them."""

from __future__ import annotations

import podlab
import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus

PODS = {"hold-0": "gpu-1", "hold-1": "gpu-2"}
# Fast enough to be nothing but a measurement, on emulated processors too.
BUSY = 100_000.0


@pytest.fixture(scope="module")
def hosts_report(lab: podlab.PodLab, metrics: Prometheus) -> podlab.Json:
    """What playbook verify says of the rail that hosts have kept."""
    assert metrics.query("rdma_subsystem_loaded")
    return lab.verify_hosts("rxe1", tests=["ib_write_bw"])


def busy(metrics: Prometheus, direction: str, device: str) -> set[tuple[str, str]]:
    """Return node and pod of each device of the name that was busy in the last hour; the next scrape may tell."""
    rate = f'sum by (node, pod_name) (rate(rdma_hw_{direction}_bytes_total{{device="{device}"}}[1m]))'
    found = metrics.until(f"max_over_time(({rate})[1h:10s]) > {BUSY}", podlab.SCRAPE_S)
    return {(one["metric"]["node"], one["metric"].get("pod_name", "")) for one in found}


def test_prometheus_knows_whose_each_device_is(lab: podlab.PodLab, metrics: Prometheus) -> None:
    found = {
        (one["metric"]["node"], one["metric"]["device"]): (
            one["metric"]["netns"],
            one["metric"].get("pod_namespace", ""),
            one["metric"].get("pod_name", ""),
        )
        for one in metrics.until(podlab.ALL_DEVICES, podlab.SCRAPE_S)
    }
    wanted = {(node, "rxe1"): ("host", "", "") for node in podlab.NODES}
    wanted |= {(str(lab.pod(pod)["spec"]["nodeName"]), "rxe0"): ("pod", podlab.NAMESPACE, pod) for pod in PODS}
    assert found == wanted
    assert {one["value"][1] for one in metrics.query("rdma_device_present")} == {"1"}
    assert {one["value"][1] for one in metrics.query('rdma_netns_mode{mode="exclusive"}')} == {"1"}


def test_traffic_of_pods_is_that_of_their_devices(
    lab: podlab.PodLab, metrics: Prometheus, pods_report: podlab.Json
) -> None:
    assert pods_report["verdict"] == "pass"
    holders = {(str(lab.pod(pod)["spec"]["nodeName"]), pod) for pod in PODS}
    # ib_write_bw writes in one direction.
    (sender,), (receiver,) = busy(metrics, "sent", "rxe0"), busy(metrics, "rcvd", "rxe0")
    assert {sender, receiver} == holders


def test_traffic_of_hosts_is_that_of_theirs(metrics: Prometheus, hosts_report: podlab.Json) -> None:
    assert hosts_report["verdict"] == "pass", hosts_report["reasons"]
    (sender,), (receiver,) = busy(metrics, "sent", "rxe1"), busy(metrics, "rcvd", "rxe1")
    assert {sender, receiver} == {(node, "") for node in podlab.NODES}


def test_nothing_is_wrong(metrics: Prometheus) -> None:
    metrics.until(podlab.NOTHING_UNREADABLE, podlab.SCRAPE_S)
    assert {one["value"][1] for one in metrics.query("rdma_exporter_scrape_complete")} == {"1"}
    assert metrics.query('ALERTS{alertstate="firing"}') == []


def test_a_device_that_is_removed_takes_its_series_along_and_is_missed(lab: podlab.PodLab, metrics: Prometheus) -> None:
    node = lab.nodes["gpu-2"]
    node.shell("rdma link delete rxe1")
    try:
        metrics.until('rdma_device_present{node="gpu-2",device="rxe1"} == 0', podlab.SCRAPE_S)
        assert metrics.query('{__name__=~"rdma_(hw|port)_.+",node="gpu-2",device="rxe1"}') == []
        metrics.until('ALERTS{alertname="RdmaDeviceMissing",node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
    finally:
        node.shell("rdma link add rxe1 type rxe netdev rail1")
    metrics.until('rdma_device_present{node="gpu-2",device="rxe1"} == 1', podlab.SCRAPE_S)
    assert metrics.query('rdma_hw_sent_pkts_total{node="gpu-2",device="rxe1"}')


def test_what_cannot_be_read_is_an_error_and_no_zero(lab: podlab.PodLab, metrics: Prometheus) -> None:
    """The memory of process 1 is a file that nobody reads at its beginning: EIO. The exporter keeps files open."""
    node = lab.nodes["gpu-2"]
    rate = "/sys/class/infiniband/rxe1/ports/1/rate"

    def series(what: str) -> list[podlab.Json]:
        return metrics.query(f'rdma_port_{what}{{node="gpu-2",device="rxe1"}}')

    assert series("rate_bytes_per_second")
    node.shell(f"mount --bind /proc/1/mem {rate}; systemctl restart rdma_exporter")
    try:
        (told,) = metrics.until('rdma_unreadable{node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
        assert (told["metric"]["what"], told["metric"]["port"], told["metric"]["error"]) == ("rate", "1", "EIO")
        assert series("rate_bytes_per_second") == []
        assert series("state_id")
        assert metrics.query('rdma_port_rate_bytes_per_second{node="gpu-2",device="rxe0"}')
    finally:
        node.shell(f"umount --lazy {rate}; systemctl restart rdma_exporter")
    metrics.until('rdma_port_rate_bytes_per_second{node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
    metrics.until(podlab.NOTHING_UNREADABLE, podlab.SCRAPE_S)


# CAP_SYS_PTRACE is 19, CAP_SYS_ADMIN 21 (include/uapi/linux/capability.h).
@pytest.mark.parametrize(("unit", "rights"), [("rdma_exporter", 0), ("rdma_exporter-look", 1 << 19 | 1 << 21)])
def test_the_services_have_the_rights_that_they_need_and_no_more(lab: podlab.PodLab, unit: str, rights: int) -> None:
    for node in podlab.NODES:
        pid = lab.nodes[node].shell(f"systemctl show --property MainPID --value {unit}").strip()
        status = lab.nodes[node].shell(f"grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/{pid}/status").split()
        assert dict(zip(status[::2], status[1::2], strict=True)) == {
            "CapEff:": f"{rights:016x}", "CapBnd:": f"{rights:016x}", "NoNewPrivs:": "1", "Seccomp:": "2"
        }  # fmt: skip
        user = lab.nodes[node].shell(f"stat --format %U /proc/{pid}").strip()
        assert user == ("root" if rights else "rdma_exporter")


def test_what_looks_has_no_port_and_its_socket_is_for_the_exporter_alone(lab: podlab.PodLab) -> None:
    for node in podlab.NODES:
        pid = lab.nodes[node].shell("systemctl show --property MainPID --value rdma_exporter-look").strip()
        assert f"pid={pid}," not in lab.nodes[node].shell("ss --no-header --tcp --udp --all --processes")
        paths = "/run/rdma_exporter /run/rdma_exporter/look.sock"
        assert lab.nodes[node].shell(f"stat --format '%U %G %a' {paths}").splitlines() == [
            "root rdma_exporter 750",
            "root rdma_exporter 660",
        ]
