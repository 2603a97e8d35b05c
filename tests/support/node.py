# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine as a node of a control plane of its own: a real kubelet and containerd, for pods with the host's network.

    with node(plane, tmp_path) as made:
        with made.pod("ml", "train-0") as pod: ...

No CNI is asked for, and nothing of this machine's own kubelet or containerd is used.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import certificates, config, oci, ports
from ansible_collections.rdmaops.gpu_fabric.tests.lab.kubelet import PAUSE
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import tail
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.cluster import Cluster
from ansible_collections.rdmaops.gpu_fabric.tests.support.objects import manifest
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

NAME = "this-machine"
IMAGE = "lab.invalid/busybox:1"
APPLETS = ("cat", "env", "id", "nc", "setsid", "sh", "sleep", "timeout", "yes")
LIMIT_S = 120
# What a kubelet sets (setupKernelTunables() in pkg/kubelet/cm/container_manager_linux.go).
TUNABLES = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes")  # fmt: skip
# What a kubelet makes whatever its --root-dir is (DevicePluginPath in k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1), and what
# says to roles that a kubelet has run on a host.
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")


def address() -> str:
    """This machine's, by which the API server reaches its kubelet."""
    shown = subprocess.run(["ip", "-json", "address"], capture_output=True, text=True, timeout=20, check=True).stdout
    for link in json.loads(shown):
        for address in link["addr_info"]:
            if address["family"] == "inet" and address["scope"] == "global":
                return str(address["local"])
    return skip_or_fail("a kubelet needs an IPv4 address that is not the loopback's")


class Node:
    """The kubelet's node, and its pods."""

    def __init__(self, plane: Cluster) -> None:
        self.plane = plane

    @contextlib.contextmanager
    def pod(self, namespace: str, name: str, **container: t.Any) -> t.Iterator[None]:
        """A pod that sleeps, of a container main; it is gone at the end."""
        known = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sleep", "1000"]}
        main = {**known, "env": [{"name": "PATH", "value": "/bin"}], **container}
        spec = {
            "nodeName": NAME,
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [main],
        }
        self.plane.apply(manifest("v1", "Pod", name, namespace, spec=spec))
        try:
            condition = ["--for=condition=Ready", f"--timeout={LIMIT_S}s", f"pod/{name}"]
            self.plane.kubectl("wait", "-n", namespace, *condition, limit=LIMIT_S + 30)
            yield
        finally:
            self.plane.kubectl("delete", "pod", name, "-n", namespace, "--ignore-not-found", limit=LIMIT_S)


@contextlib.contextmanager
def running(argv: t.Sequence[str], log: Path) -> t.Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def runtime(work: Path) -> t.Iterator[Path]:
    """A containerd with its CRI; the path of its socket."""
    socket = work / "containerd.sock"
    text = f"""
version = 2
root = "{work}/containerd"
state = "{work}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  stream_server_port = "0"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{work}/cni"
    conf_dir = "{work}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
"""
    (work / "containerd.toml").write_text(text)
    with running([need_tool("containerd"), f"--config={work}/containerd.toml"], work / "containerd.log"):
        ctr = [need_tool("ctr"), "--address", str(socket), "--namespace", "k8s.io"]
        wait(
            lambda: not subprocess.run([*ctr, "version"], capture_output=True, timeout=20, check=False).returncode, work
        )
        for archive in images(work):
            argv = [*ctr, "images", "import", "--snapshotter", "native", str(archive)]
            subprocess.run(argv, capture_output=True, timeout=60, check=True)
        try:
            yield socket
        finally:
            listed = subprocess.run(
                [*ctr, "tasks", "ls", "-q"], capture_output=True, text=True, timeout=60, check=False
            )
            for ident in listed.stdout.split():
                subprocess.run([*ctr, "tasks", "rm", "--force", ident], capture_output=True, timeout=60, check=False)


def wait(condition: t.Callable[[], bool], work: Path) -> None:
    wait_for(condition, LIMIT_S, pause=0.2, report=lambda: "\n".join(tail(log, 8) for log in work.glob("*.log")))


def images(work: Path) -> list[Path]:
    """Archives of the sandbox's image, and of one that has busybox."""
    busybox = Path(need_tool("busybox")).read_bytes()
    pause = oci.Image({"pause": sleeper()}, entrypoint=["/pause"], mode=0o755)
    tools = oci.Image({f"bin/{name}": busybox for name in ("busybox", *APPLETS)}, mode=0o755)
    for name, image, tag in (("pause.tar", pause, PAUSE), ("busybox.tar", tools, IMAGE)):
        oci.oci_archive(work / name, image, names=[tag])
    return [work / "pause.tar", work / "busybox.tar"]


def sleeper() -> bytes:
    from ansible_collections.rdmaops.gpu_fabric.tests.lab import tools

    return tools.get("pause", config.places(), config.versions()).read_bytes()


@contextlib.contextmanager
def node(plane: Cluster, work: Path) -> t.Iterator[Node]:
    """Run a kubelet until the end of the block."""
    need_root()
    for tool in ("containerd", "runc"):
        need_tool(tool)
    kubelet = plane.tool("kubelet")
    port = ports.reserve()
    number = ports.number(port)
    port.close()
    with runtime(work) as socket, restored(work), contextlib.ExitStack() as stack:
        authority = plane.plane.authority
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(authority.file)}},
            "authorization": {"mode": "Webhook"},
            "address": address(),
            "port": number,
            "healthzPort": 0,
            "readOnlyPort": 0,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "containerRuntimeEndpoint": f"unix://{socket}",
            "podLogsDir": str(work / "pods"),
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "20Mi"},
        }
        certificates.write(work / "kubelet.yaml", json.dumps(settings).encode())
        argv = [
            *(str(kubelet), f"--config={work}/kubelet.yaml", f"--root-dir={work}/kubelet", f"--node-ip={address()}"),
            *(f"--hostname-override={NAME}", f"--cert-dir={work}/kubelet-keys"),
            f"--kubeconfig={plane.plane.kubeconfig_for('system:node:' + NAME, ['system:nodes'])}",
        ]
        stack.enter_context(running(argv, work / "kubelet.log"))
        wait(lambda: NAME in plane.kubectl("get", "nodes", "-o", "name", check=False), work)
        try:
            yield Node(plane)
        finally:
            plane.kubectl("delete", "node", NAME, "--ignore-not-found", check=False)


@contextlib.contextmanager
def restored(work: Path) -> t.Iterator[None]:
    """What a kubelet changes on its machine is as it was; it mounts its directory on itself, and volumes below."""
    places = [Path("/proc/sys") / name for name in TUNABLES]
    before = {place: place.read_text() for place in places if place.exists()}
    made = [place for place in (DEVICE_PLUGINS, DEVICE_PLUGINS.parent) if not place.exists()]
    try:
        yield
    finally:
        for place, text in before.items():
            if place.read_text() != text:
                place.write_text(text)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{work}/"):
                subprocess.run(["umount", line.split()[1]], capture_output=True, timeout=60, check=False)
        for place in filter(Path.exists, made):
            shutil.rmtree(place)


__all__ = ["NAME", "Node", "node"]
