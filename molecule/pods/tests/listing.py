# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the nodes and in the cluster: listed before the first run, and compared after the teardown."""

from __future__ import annotations

import json
import shlex
import typing as t

from ansible_collections.rdmaops.gpu_fabric.molecule.pods.tests import podlab
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

if t.TYPE_CHECKING:  # pragma: no cover
    from testinfra.host import Host

Json = t.Any
Listing = dict[str, str]

KEPT = podlab.EPHEMERAL / "listing.json"
PLACES = "/boot /etc /opt /root /srv /usr/local /var/lib/rdmaops"
# What joins the nodes to the lab's cluster (tests/lab/kubelet.py), and what a running machine writes by itself.
LAB = COLLECTION / "tests/lab/kubernetes_node"
OF_THE_LAB = (
    *(f"/{path.relative_to(LAB)}" for path in sorted(LAB.rglob("*")) if path.is_file()),
    "/etc/cni/net.d/10-pods.conflist", "/etc/kubernetes/", "/etc/systemd/system/multi-user.target.wants/",
    "/usr/local/bin/kubelet", "unit containerd", "unit kubelet", "unit kubepods", "unit lab-pods",
    "unit var-lib-containerd",
)  # fmt: skip
OF_THE_MACHINE = ("/etc/mtab", "/etc/resolv.conf", "/root/.ansible", "/etc/ld.so.cache", "/boot/grub/grubenv")
# The network plugin of its pods makes the node a router, which the kernel then lets accept no redirects.
FORWARDING = (".forwarding", "all.accept_redirects")
# Users and groups are listed one by one.
ACCOUNTS = ("/etc/group", "/etc/gshadow", "/etc/passwd", "/etc/shadow", "/etc/subgid", "/etc/subuid")
# An image that is made again has other bytes. What is in it is listed.
INITRAMFS = "/boot/initrd.img-"
# Kinds whose objects come and go by themselves, and the nodes with their Leases.
FLEETING = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes", "pods", "endpoints",
            "endpointslices.discovery.k8s.io", "controllerrevisions.apps", "csinodes.storage.k8s.io",
            "componentstatuses"}  # fmt: skip


def of_node(host: Host) -> Listing:
    """Return files with their digests, units, users, and parameters of kernel modules and of rails."""
    rows: Listing = {}
    # A directory that does not exist has no files; any other error fails.
    command = f"for place in {PLACES}; do [ ! -d $place ] || find $place -xdev -type f -exec sha256sum {{}} +; done"
    for line in host.check_output(command).splitlines():
        digest, _blank, path = line.partition("  ")
        rows[path] = "image" if path.startswith(INITRAMFS) else digest
    for line in host.check_output(f"for image in {INITRAMFS}*; do lsinitramfs $image; done").splitlines():
        if "modprobe.d/" in line or "rdmaops" in line:
            rows[f"in the initramfs: {line}"] = ""
    for line in host.check_output("systemctl list-unit-files --no-legend --no-pager").splitlines():
        name, state, *_preset = line.split()
        rows[f"unit {name}"] = state
    for kind in ("passwd", "group"):
        for line in host.check_output(f"getent {kind}").splitlines():
            rows[f"{kind} {line.split(':')[0]}"] = line
    # ib_core may not be loaded, and then the pattern stays as it is.
    places = "/proc/cmdline /sys/module/ib_core/parameters/*"
    parameters = f"for place in {places}; do [ ! -e $place ] || grep -H . $place; done"
    for line in host.check_output(parameters).splitlines():
        path, _colon, value = line.partition(":")
        rows[f"parameter {path}"] = value
    for line in host.check_output("sysctl -a --pattern 'net[.]ipv4[.]conf[.](all|default|rail.)[.]'").splitlines():
        name, _equals, value = line.partition(" = ")
        rows[f"sysctl {name}"] = value
    mode = host.run("rdma system show")
    if mode.rc == 0:
        rows["mode"] = mode.stdout.split()[1]
    return rows


def of_cluster(lab: podlab.PodLab) -> Listing:
    """Return the names of all objects that stay where they are."""
    kinds = lab.cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    rows: Listing = {}
    for kind in sorted({*kinds} - FLEETING):
        for item in lab.cluster.json("get", kind, "--all-namespaces")["items"]:
            metadata = item["metadata"]
            rows[f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"] = ""
    return rows


def different(before: Listing, after: Listing) -> dict[str, tuple[str | None, str | None]]:
    """Return what is not the same, without what belongs to the lab or to the machine."""
    names = [
        name
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
        and not name.startswith((*OF_THE_LAB, *OF_THE_MACHINE, *ACCOUNTS))
        and not name.endswith(FORWARDING)
    ]
    return {name: (before.get(name), after.get(name)) for name in names}


def of_packages(host: Host, names: t.Iterable[str]) -> set[str]:
    """Return which of these files and units dpkg knows, and which groups a package's script creates."""
    return {name for name in names if host.run(_search(name)).rc == 0}


def _search(name: str) -> str:
    """Return the command that finds a row in a package."""
    kind, _blank, text = name.partition(" ")
    if kind == "group":
        return f"grep --quiet --word-regexp {shlex.quote(text)} /var/lib/dpkg/info/*.postinst"
    return f"dpkg -S {shlex.quote(f'*/{text}' if kind == 'unit' else name)}"


def keep(rows: Json) -> None:
    KEPT.write_text(json.dumps(rows))


def kept() -> Json:
    return json.loads(KEPT.read_text())
