# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What parsers are fed with: mutations of recorded outputs, and of texts and values such as they read."""

from __future__ import annotations

import atexit
import base64
import json
import os
import random
import re
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, hostile
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.plugin_utils._kubernetes.kubernetes_hosts import settings

UNIT = COLLECTION / "tests/unit"
FILTERS = UNIT / "plugins/filter/fixtures"
UTILS = UNIT / "plugins/module_utils/fixtures"
Source = t.Callable[[random.Random], t.Any]


def escaped(text: str) -> str:
    """Replace surrogates that stand for no byte by question marks."""
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", text)


def texts(*seeds: str | Path) -> Source:
    contents = [seed.read_text(errors="surrogateescape") if isinstance(seed, Path) else seed for seed in seeds]
    assert contents
    return lambda rng: hostile.text(rng, contents)


def written(*seeds: str | Path) -> Source:
    """Texts as files and programs give them: a surrogate stands for a byte (errors=surrogateescape)."""
    source = texts(*seeds)
    return lambda rng: escaped(source(rng))


def octets(*seeds: bytes) -> Source:
    return lambda rng: hostile.octets(rng, seeds)


def documents(*seeds: t.Any) -> Source:
    """JSON texts, of texts or of values."""
    contents = [seed if isinstance(seed, str) else json.dumps(seed) for seed in seeds]
    return lambda rng: hostile.document(rng, contents)


def values(*seeds: t.Any) -> Source:
    return lambda rng: hostile.value(rng, seeds)


def outputs(pattern: str) -> list[Path]:
    paths = sorted(path for path in FILTERS.glob(pattern) if path.suffix != ".license")
    assert paths, pattern
    return paths


class Parser(t.NamedTuple):
    """A parser, its inputs, and how it may refuse them."""

    call: t.Callable[[t.Any], object]
    source: Source
    refusals: tuple[type[Exception], ...] = (FabricError,)


MODPROBE_D = (
    "options ib_core netns_mode=0 x=1 # c\n",
    '# a\noptions ib-core a="x y" \\\n b=2\nalias net-pf-10 off\ninstall ib_core /sbin/modprobe -i ib_core $CMDLINE_OPTS\n',
    "softdep mlx5_core pre: ib_core\nblacklist foo\noptions a[b-c]d x=1\n\toptions\tmlx5_core  prof_sel=2\n",
)
CMDLINES = (
    'BOOT_IMAGE=/vmlinuz-6.12 root=UUID=1 ro quiet ib_core.netns_mode=0 x="a b" -- init',
    'ib-core.netns_mode=1 "ib_core.x=y z" rd.driver.pre=ib_core,mlx5_core initcall_debug',
)
BLS = (
    "title Linux\nversion 6.12\nlinux /vmlinuz\ninitrd /initrd.img $tuned_initrd\noptions root=/dev/sda1 $kernelopts\n"
    "grub_users $grub_users\ngrub_arg --unrestricted\ngrub_class fedora\n",
)
NLDEV = [
    bytes.fromhex(reply)
    for file in UTILS.glob("nldev_*.json")
    for exchange in json.loads(file.read_text())["exchanges"]
    for reply in exchange["replies"]
]
PROC = json.loads(next(UTILS.glob("proc_*.json")).read_text())["files"]
KUBECONFIG = (
    "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: %s\n    server: https://192.0.2.1:6443\n"
    "users:\n- name: a\n  user:\n    client-certificate-data: %s\n"
) % ((base64.b64encode((UTILS / "openssl/openssl_3.0.19_ca.pem").read_bytes()).decode(),) * 2)
IPAM = {"type": "whereabouts", "range": "10.1.0.0/24", "range_start": "10.1.0.5", "exclude": ["10.1.0.9/32"]}
NAD = {
    "cniVersion": "0.3.1",
    "name": "rail0",
    "plugins": [
        {"type": "host-device", "device": "ens1", "ipam": IPAM},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_ignore": "1"}, "mtu": 9000},
    ],
}
DIGEST = "sha256:" + "ab" * 32
MANIFEST = {
    "schemaVersion": 2,
    "config": {"digest": DIGEST, "size": 3, "mediaType": "x"},
    "layers": [{"digest": DIGEST, "size": 4, "urls": []}],
    "manifests": [{"digest": DIGEST, "size": 5, "platform": {"os": "linux", "architecture": "amd64"}}],
}
CONTAINERD = (
    'disabled_plugins = []\nversion = 2\n[plugins]\n  [plugins."io.containerd.grpc.v1.cri"]\n'
    '    sandbox_image = "registry.k8s.io/pause:3.10"\n    [plugins."io.containerd.grpc.v1.cri".cni]\n'
    "      bin_dir = \"/opt/cni/bin\"\n      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n"
    "        SystemdCgroup = true\n"
)
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max locked memory         8388608              8388608              bytes     \n"
)
MOUNTS = (
    "srv:/x /mnt/a\\040b nfs4 rw 0 0\n10.0.0.1@o2ib:/l /lustre lustre rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
)
TCP = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0 0 10 0\n"
)
NETWORKS = ("rail0, b/rail1@net1", '[{"name": "rail0", "namespace": "x"}, "y/rail1"]', '{"name": "rail0"}')
SHARED = {"configList": [{"resourceName": "hca", "resourcePrefix": "rdma", "selectors": {"vendors": ["15b3"]}}]}
WHOLE = {"resourceList": [{"resourceName": "rail0", "selectors": [{"isRdma": True}], "resourcePrefix": "nvidia.com"}]}
GID = {"index": 3, "gid": "0000:0000:0000:0000:0000:ffff:0a01:0002", "type": "RoCE v2", "ipv4": "10.1.0.2"}
PORT = {
    "port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "netdev": "ens1", "rate_gbps": 400.0, "gids": [GID],
}  # fmt: skip
DEVICE = {
    "name": "mlx5_0", "protocol": "roce", "pci_address": "0000:07:00.0", "numa_node": 0,
    "node_guid": "0c42:a103:0065:0001", "netns": {"inode": 4026531840, "name": None, "initial": True}, "pod": None,
    "ports": [PORT],
}  # fmt: skip
INFO = {"devices": [DEVICE], "unreadable": []}
INTERFACE = {"name": "ens1", "uses": [], "addresses": ["10.1.0.2/24"], "master": None}
PLAN_NODE = {**INFO, "interfaces": [INTERFACE], "cni": None}
OBJECT = {
    "apiVersion": "k8s.cni.cncf.io/v1",
    "kind": "NetworkAttachmentDefinition",
    "metadata": {"name": "rail0", "namespace": "default", "labels": {"rdmaops.gpu-fabric/owner": "x"}},
    "spec": {"config": json.dumps(NAD)},
}
HOSTS = [{"name": "gpu-1", "group": "a", "rails": [0, 1]}, {"name": "gpu-2", "group": "b", "rails": [0]}]
CHART = (
    "apiVersion: v2\nname: gpu-operator\nversion: v25.3.0\nappVersion: v25.3.0\ndependencies:\n- name: nfd\n"
    "  version: 0.1\n  alias: x\n  condition: nfd.enabled,a.b\n"
)
CHART_VALUES = "nfd:\n  enabled: true\ndriver:\n  rdma: {enabled: false}\n  version: '1'\n  # env: []\ntoolkit: &a\n  x: 1\nb: *a\n"
MANIFESTS = (
    "---\n# Source: x\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {helm.sh/hook: pre-install}\n"
    "data: {x: '1'}\n---\nkind: List\nitems:\n- kind: Secret\n  metadata: {name: s}\n"
)
DRIFTED = {
    "role": "gpu_node", "task": "x", "kind": "file", "name": "/etc/x", "status": "drift", "desired": "1",
    "configured": None, "live": None, "next_boot": None, "diff": "--- a\n+++ b\n",
}  # fmt: skip
REPORT = {
    "schema": 1, "started": "2026-11-21T03:00:00Z", "check_mode": True, "complete": True, "incomplete": [],
    "verdict": "drift", "hosts": {"gpu-1": {"status": "drift", "objects": [DRIFTED]}},
}  # fmt: skip
WEB = "tls_server_config:\n  cert_file: a\n  key_file: b\nbasic_auth_users:\n  joe: $2b$10$" + "." * 53 + "\n"
SETTINGS = settings()


class Scratch:
    """A file for parsers that read files, in memory if possible."""

    def __init__(self) -> None:
        room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.path = Path(tempfile.mkstemp(prefix="rdmaops-hostile-", dir=room)[1])
        atexit.register(lambda: self.path.unlink(missing_ok=True))

    def of(self, content: str | bytes) -> str:
        self.path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return str(self.path)


SCRATCH = Scratch()
