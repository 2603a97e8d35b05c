# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw docs/images/architecture.svg: who runs where, and who talks to whom.

python tests/tools/architecture.py
"""

from __future__ import annotations

import typing as t
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

WIDTH, HEIGHT = 1080, 760
LINE = 19

# Where a role does its work, in the order in which people meet them.
ON_NODES = (
    "gpu_node",
    "node_maintenance",
    "kubernetes",
    "fabric_check",
    "secondary_network",
    "rdma_attachment",
    "rdma_exporter",
    "training_image",
)
ON_CLUSTER = ("gpu_operator", "node_labels", "training_runtime", "training_job", "experiment")
ELSEWHERE = ("drift", "awx", "monitoring", "switch_telemetry")
PLAYBOOKS = (
    "check",
    "site",
    "nodes",
    "reboot",
    "kubernetes",
    "cluster",
    "verify",
    "image",
    "train",
    "experiment",
    "monitoring",
    "drift",
    "drift_merge",
    "awx",
    "teardown",
)


class Box(t.NamedTuple):
    """A box with a title and lines; a line that begins with a blank is smaller."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...]
    fill: str


BOXES = (
    Box(20, 20, 520, 270, "Controller (or a job of AWX)", (
        "Playbooks: who, in which order, how many at a time",
        " " + ", ".join(PLAYBOOKS[:6]) + ",", " " + ", ".join(PLAYBOOKS[6:]),
        "Roles: what a site may choose, and consent",
        " " + ", ".join(ON_NODES[:4]) + ",", " " + ", ".join(ON_NODES[4:]) + ",",
        " " + ", ".join(ON_CLUSTER) + ",", " " + ", ".join(ELSEWHERE),
        "Filters: rails, plans, NCCL, what tools have printed",
        "Actions and the callback: verdict on the fabric, drift report",
    ), "#eef4fb"),
    Box(600, 20, 460, 130, "Reports", (
        "fabric: table, JSON, page with a heat map",
        "drift: table, JSON, page; as artifact, ConfigMap, URL, file",
        "job: which transport NCCL used",
    ), "#f6f6f6"),
    Box(600, 185, 460, 105, "Prometheus and Grafana", (
        "scrape jobs, alerts, dashboards by role monitoring",
        "gNMIc asks the fabric's switches (switch_telemetry)",
    ), "#f6f6f6"),
    Box(20, 350, 380, 190, "Where the kubeconfig is (kubernetes_api)", (
        "Modules of the cluster, by the API server:",
        " cluster_objects, network_attachment,", " whereabouts_pools, gpu_operator (helm),",
        " node_drain, node_condition, node_labels, rdma_mode_conflict_info,", " training_job_check_info, training_job_info, ...",
        "One call looks, decides, acts and reports",
    ), "#fdf3e3"),
    Box(460, 350, 600, 390, "GPU nodes (gpu_nodes)", (
        "Modules of the node, Python 3.8 and newer:",
        " rdma_system, modprobe_options, rdma_info, rdma_device, rdma_audit_info,",
        " network_device, devlink_param, owned_files, cni_install, fabric_probe, ...",
    ), "#eaf7ee"),
    Box(480, 465, 270, 125, "What decides the mode", (
        "running kernel (netlink)", "modprobe.d, every line", "kernel command line, boot entry", "initramfs",
    ), "#ffffff"),
    Box(770, 465, 270, 125, "Services that stay", (
        "rdma_attachment: RDMA device", " goes where its card goes", "rdma_exporter: counters of all", " network namespaces",
    ), "#ffffff"),
    Box(480, 605, 270, 115, "Pods", (
        "Multus: host-device, macvlan, ...", "whereabouts: one range per rail", "NCCL's environment, per pod",
    ), "#ffffff"),
    Box(770, 605, 270, 115, "Cards and rails", (
        "mlx5, irdma, erdma, soft-RoCE", "rping and ib_write_bw, node to node", "or pod to pod, rail by rail",
    ), "#ffffff"),
    Box(20, 600, 380, 140, "Kubernetes API server", (
        "attachments, pools, labels, Leases", "NVIDIA's helm release", "pods and jobs", "ConfigMaps with drift reports",
    ), "#fdf3e3"),
)  # fmt: skip


class Arrow(t.NamedTuple):
    """A line with a head, and a word beside it."""

    points: tuple[tuple[int, int], ...]
    word: str
    at: tuple[int, int]


ARROWS = (
    Arrow(((210, 290), (210, 350)), "ssh, or local", (220, 325)),
    Arrow(((500, 290), (500, 350)), "ssh", (510, 325)),
    Arrow(((540, 85), (600, 85)), "", (0, 0)),
    Arrow(((540, 235), (600, 235)), "", (0, 0)),
    Arrow(((210, 540), (210, 600)), "HTTPS", (220, 575)),
    Arrow(((400, 670), (460, 670)), "", (0, 0)),
    Arrow(((905, 350), (905, 290)), "/metrics", (915, 325)),
)


def drawn(box: Box) -> list[str]:
    rows = [
        '<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="%s" stroke="#5a6b7b"/>'
        % (box.x, box.y, box.width, box.height, box.fill),
        '<text x="%d" y="%d" class="title">%s</text>' % (box.x + 14, box.y + 25, escape(box.title)),
    ]
    y = box.y + 50
    for line in box.lines:
        small = line.startswith(" ")
        kind, x = ("small", box.x + 28) if small else ("line", box.x + 14)
        rows.append('<text x="%d" y="%d" class="%s">%s</text>' % (x, y, kind, escape(line.strip())))
        y += LINE
    return rows


def pointed(arrow: Arrow) -> list[str]:
    points = " ".join("%d,%d" % point for point in arrow.points)
    rows = [f'<polyline points="{points}" fill="none" stroke="#34495e" stroke-width="2" marker-end="url(#head)"/>']
    if arrow.word:
        rows.append('<text x="%d" y="%d" class="small">%s</text>' % (*arrow.at, escape(arrow.word)))
    return rows


def picture() -> str:
    """Return the picture."""
    rows = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
        % (WIDTH, HEIGHT, WIDTH, HEIGHT),
        "<title>The parts of rdmaops.gpu_fabric and where they run</title>",
        "<style>text{font-family:DejaVu Sans,Verdana,sans-serif;fill:#1c2833}.title{font-size:15px;font-weight:bold}"
        ".line{font-size:13px}.small{font-size:12px;fill:#44525f}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L10,5 L0,10 z" fill="#34495e"/></marker></defs>',
        '<rect width="%d" height="%d" fill="#ffffff"/>' % (WIDTH, HEIGHT),
    ]
    for box in BOXES:
        rows += drawn(box)
    for arrow in ARROWS:
        rows += pointed(arrow)
    return "\n".join([*rows, "</svg>"]) + "\n"


def main() -> None:
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
