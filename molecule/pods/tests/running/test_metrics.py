# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus knows about devices on hosts and in pods, while they are used and when they change."""

from __future__ import annotations

import pytest

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support.prometheus import Prometheus

PODS = {"hold-0": "gpu-1", "hold-1": "gpu-2"}
# Fast enough to be nothing but a measurement, on emulated processors too.
BUSY = 100_000.0


@pytest.fixture(scope="module")
def hosts_report(lab: podlab.PodLab, metrics: Prometheus) -> podlab.Json:
    """The report of playbook verify on the rail that the hosts have kept."""
    assert metrics.query("rdma_subsystem_loaded")
    return lab.verify_hosts("rxe1", tests=["ib_write_bw"])


def busy(metrics: Prometheus, direction: str, device: str) -> set[tuple[str, str]]:
    """Return node and pod of each device of the name that was busy in the last hour, according to the next scrape too."""
    rate = f'sum by (node, pod_name) (rate(rdma_hw_{direction}_bytes_total{{device="{device}"}}[1m]))'
    series = metrics.until(f"max_over_time(({rate})[1h:10s]) > {BUSY}", podlab.SCRAPE_S)
    return {(row["metric"]["node"], row["metric"].get("pod_name", "")) for row in series}


def test_prometheus_knows_whose_each_device_is(lab: podlab.PodLab, metrics: Prometheus) -> None:
    places = {
        (row["metric"]["node"], row["metric"]["device"]): (
            row["metric"]["netns"],
            row["metric"].get("pod_namespace", ""),
            row["metric"].get("pod_name", ""),
        )
        for row in metrics.until(podlab.ALL_DEVICES, podlab.SCRAPE_S)
    }
    expected = {(node, "rxe1"): ("host", "", "") for node in podlab.NODES}
    expected |= {(str(lab.pod(pod)["spec"]["nodeName"]), "rxe0"): ("pod", podlab.NAMESPACE, pod) for pod in PODS}
    assert places == expected
    assert {row["value"][1] for row in metrics.query("rdma_device_present")} == {"1"}
    assert {row["value"][1] for row in metrics.query('rdma_netns_mode{mode="exclusive"}')} == {"1"}


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
    assert {row["value"][1] for row in metrics.query("rdma_exporter_scrape_complete")} == {"1"}
    assert metrics.query('ALERTS{alertstate="firing"}') == []


def test_a_device_that_is_removed_takes_its_series_along_and_is_missed(lab: podlab.PodLab, metrics: Prometheus) -> None:
    node = lab.nodes["gpu-2"]
    node.check_output("rdma link delete rxe1")
    try:
        metrics.until('rdma_device_present{node="gpu-2",device="rxe1"} == 0', podlab.SCRAPE_S)
        assert metrics.query('{__name__=~"rdma_(hw|port)_.+",node="gpu-2",device="rxe1"}') == []
        metrics.until('ALERTS{alertname="RdmaDeviceMissing",node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
    finally:
        node.check_output("rdma link add rxe1 type rxe netdev rail1")
    metrics.until('rdma_device_present{node="gpu-2",device="rxe1"} == 1', podlab.SCRAPE_S)
    assert metrics.query('rdma_hw_sent_pkts_total{node="gpu-2",device="rxe1"}')


def test_what_cannot_be_read_is_an_error_and_no_zero(lab: podlab.PodLab, metrics: Prometheus) -> None:
    """The memory of process 1 cannot be read at its beginning: EIO. The exporter keeps files open, hence the restart."""
    node = lab.nodes["gpu-2"]
    rate = "/sys/class/infiniband/rxe1/ports/1/rate"

    def series(suffix: str) -> list[podlab.Json]:
        return metrics.query(f'rdma_port_{suffix}{{node="gpu-2",device="rxe1"}}')

    assert series("rate_bytes_per_second")
    node.check_output(f"mount --bind /proc/1/mem {rate}; systemctl restart rdma_exporter")
    try:
        (row,) = metrics.until('rdma_unreadable{node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
        assert (row["metric"]["what"], row["metric"]["port"], row["metric"]["error"]) == ("rate", "1", "EIO")
        assert series("rate_bytes_per_second") == []
        assert series("state_id")
        assert metrics.query('rdma_port_rate_bytes_per_second{node="gpu-2",device="rxe0"}')
    finally:
        node.check_output(f"umount --lazy {rate}; systemctl restart rdma_exporter")
    metrics.until('rdma_port_rate_bytes_per_second{node="gpu-2",device="rxe1"}', podlab.SCRAPE_S)
    metrics.until(podlab.NOTHING_UNREADABLE, podlab.SCRAPE_S)


# CAP_SYS_PTRACE is 19, CAP_SYS_ADMIN 21 (include/uapi/linux/capability.h).
@pytest.mark.parametrize(("unit", "rights"), [("rdma_exporter", 0), ("rdma_exporter-look", 1 << 19 | 1 << 21)])
def test_the_services_have_the_rights_that_they_need_and_no_more(lab: podlab.PodLab, unit: str, rights: int) -> None:
    for name in podlab.NODES:
        node = lab.nodes[name]
        pid = node.check_output("systemctl show --property MainPID --value %s", unit)
        status = node.check_output(f"grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/{pid}/status").split()
        assert dict(zip(status[::2], status[1::2], strict=True)) == {
            "CapEff:": f"{rights:016x}", "CapBnd:": f"{rights:016x}", "NoNewPrivs:": "1", "Seccomp:": "2"
        }  # fmt: skip
        assert node.file(f"/proc/{pid}").user == ("root" if rights else "rdma_exporter")


def test_the_privileged_service_has_no_port_and_its_socket_is_for_the_exporter_alone(lab: podlab.PodLab) -> None:
    for name in podlab.NODES:
        node = lab.nodes[name]
        pid = node.check_output("systemctl show --property MainPID --value rdma_exporter-look")
        assert f"pid={pid}," not in node.check_output("ss --no-header --tcp --udp --all --processes")
        for path, mode in (("/run/rdma_exporter", 0o750), ("/run/rdma_exporter/look.sock", 0o660)):
            place = node.file(path)
            assert (place.user, place.group, place.mode) == ("root", "rdma_exporter", mode)
