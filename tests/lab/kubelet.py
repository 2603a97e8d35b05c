# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of the lab as nodes of its cluster: containerd from Debian and the lab's kubelet, joined to the control plane.

Every guest has the same address in its own user network, and the API server has to find its kubelet. So each has one
more on its loopback device, which is local to this machine as well, and QEMU forwards the kubelet's port to the guest.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import http.server
import json
import os
import pathlib
import shlex
import socket
import subprocess
import threading
import time
import typing as t

from . import config, dns, kubeconfig, oci, qemu, tools
from .nodes import Lab
from .progress import LabError, say

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane

FILES = config.HERE / "kubernetes_node"
# KubeletPort in kubernetes' pkg/cluster/ports/ports.go
KUBELET_PORT = 10250
# Of rdma_exporter_listen_address in the role's defaults.
EXPORTER_PORT = 9879
PAUSE = "lab.invalid/pause:1"
PACKAGES = ("containerd", "runc", "iptables")
# The pod network of a laboratory: pods of one node see each other, and the rails are what joins nodes.
POD_NETWORK = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipMasq": True,
            "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}]},
        }
    ],
}
FETCH = (
    "import shutil, sys, urllib.request; "
    "shutil.copyfileobj(urllib.request.urlopen(sys.argv[1], timeout=60), open(sys.argv[2], 'wb'), 1 << 20)"
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing about requests."""

    def log_message(self, *_: t.Any) -> None:
        pass


@contextlib.contextmanager
def served(directory: pathlib.Path, seen_from_guest: str) -> t.Iterator[str]:
    """The address under which guests read a directory of this machine."""
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://{seen_from_guest}:{server.server_port}"
        finally:
            server.shutdown()


def as_root(argv: t.Sequence[str], doing: str) -> None:
    command = list(argv) if os.geteuid() == 0 else ["sudo", "-n", *argv]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise LabError(f"{doing}: {shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")


def address_of(settings: t.Mapping[str, t.Any], name: str) -> str:
    """Return by which address this machine reaches what listens on a node."""
    return f"{settings['cluster']['node_prefix']}.{config.node_index(name)}"


def forward(lab: Lab, name: str) -> None:
    """Let this machine reach what listens on the node; a machine that was restarted has forgotten it."""
    address = address_of(lab.settings, name)
    # A route and no address: the node does not accept its own address as a source. QEMU uses its own instead of
    # 127.0.0.1 (tcp_connect() in libslirp's src/tcp_subr.c).
    as_root(
        ["ip", "route", "replace", "local", f"{address}/32", "dev", "lo", "src", "127.0.0.1"],
        f"giving this machine the address by which it finds what listens on {name}",
    )
    with qemu.Monitor(lab.node(name).monitor) as monitor:
        for port in (KUBELET_PORT, EXPORTER_PORT):
            command = f"hostfwd_add outside tcp:{address}:{port}-:{port}"
            # HMP has no errors, only texts. An existing forward looks like a port in use, and no other program
            # uses the node's address.
            monitor.execute("human-monitor-command", **{"command-line": command})


class Join:
    """One node on its way into the cluster, with what each phase took."""

    def __init__(self, lab: Lab, plane: ControlPlane, name: str, dns_port: int) -> None:
        self.lab, self.plane, self.name, self.dns_port = lab, plane, name, dns_port
        self.settings = lab.settings["cluster"]
        self.address = address_of(lab.settings, name)
        self.disk = lab.node(name).containers
        self.phases: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def phase(self, text: str) -> t.Iterator[None]:
        begun = time.monotonic()
        yield
        self.phases.append((text, time.monotonic() - begun))
        say(f"{self.name}: {text} in {self.phases[-1][1]:.0f} s")

    def about(self, peers: t.Sequence[tuple[str, str]]) -> bytes:
        """What units of the node read: its own address, and the ways to other nodes' pods and to the DNS."""
        lines = {
            "NODE_ADDRESS": self.address,
            "PEERS": " ".join(f"{pods},{via}" for pods, via in peers),
            "DNS_SERVICE": dns.address(self.settings["service_range"]),
            "DNS_SERVER": f"{self.settings['seen_from_guest']}:{self.dns_port}",
        }
        return "".join(f'{name}="{value}"\n' for name, value in lines.items()).encode()

    def run(self, script: str) -> str:
        return self.lab.ssh(self.name, f"set -eu; {script}", self.settings["limits"]["join"]).stdout

    def send(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file of the guest."""
        quoted = shlex.quote(path)
        script = f"set -eu; umask 077; mkdir -p -m 755 {shlex.quote(os.path.dirname(path))}; cat >{quoted}; chmod {mode:o} {quoted}"
        argv = [*self.lab.ssh_argv(self.name), script]
        done = subprocess.run(argv, input=content, capture_output=True, timeout=120, check=False)
        if done.returncode:
            raise LabError(f"{self.name}: writing {path}: {done.stderr.decode('utf-8', 'replace').strip()}")

    def fetch(self, url: str, path: str) -> str:
        return shlex.join(["python3", "-c", FETCH, url, path])

    def install(self, served_at: str) -> None:
        script = f"export DEBIAN_FRONTEND=noninteractive; command -v containerd >/dev/null || {{ apt-get -qq update; apt-get -qq -y --no-install-recommends install {' '.join(PACKAGES)}; }} >/dev/null"
        with self.phase("containerd installed"):
            self.run(script)
        kubelet = "/usr/local/bin/kubelet"
        with self.phase("kubelet fetched"):
            fetch = self.fetch(f"{served_at}/kubelet", kubelet + ".new")
            self.run(f"[ -x {kubelet} ] || {{ {fetch}; chmod 755 {kubelet}.new; mv {kubelet}.new {kubelet}; }}")
        with self.phase("configured"):
            for path in sorted(p for p in FILES.rglob("*") if p.is_file()):
                self.send(f"/{path.relative_to(FILES)}", path.read_bytes())
            authority = self.plane.authority
            self.send("/etc/kubernetes/ca.crt", authority.file.read_bytes())
            self.send("/etc/kubernetes/node", self.about([]))
            user = f"system:node:{self.name}"
            pair = kubeconfig.certificate_user(*authority.client(user, ["system:nodes"]))
            content = kubeconfig.render(self.plane.server_for_nodes, authority.file.read_bytes(), user, pair)
            self.send("/etc/kubernetes/kubelet.kubeconfig", content, 0o600)
        # Its files are there on every node; on one without that disk nothing asks for it.
        mount = "var-lib-containerd.mount"
        images = f"systemctl stop containerd; systemctl enable --quiet --now {mount}; " if self.disk else ""
        with self.phase("containerd started, image of the sandbox imported"):
            self.run(
                f"systemctl daemon-reload; {images}systemctl restart systemd-modules-load systemd-sysctl containerd; "
                f"{self.fetch(f'{served_at}/pause.tar', '/run/pause.tar')}; "
                "ctr --namespace k8s.io images import /run/pause.tar >/dev/null; rm /run/pause.tar"
            )
            self.run("systemctl enable --quiet kubelet; systemctl restart kubelet")

    def pod_network(self) -> None:
        """Configure the pods' own network, as the cluster's pod network would."""
        with self.phase("given a range for its pods"):
            limit = time.monotonic() + self.settings["limits"]["join"]
            while not (pod_range := self.node().get("spec", {}).get("podCIDR")):
                if time.monotonic() > limit:
                    journal = self.run("journalctl --unit kubelet --lines 20 --no-pager --output cat || :")
                    raise LabError(f"{self.name}: its kubelet made no Node; the end of its journal:\n{journal}")
                time.sleep(1)
        network = json.loads(json.dumps(POD_NETWORK))
        network["plugins"][0]["ipam"]["ranges"] = [[{"subnet": pod_range}]]
        # Under a name that comes after any that a role writes for Multus.
        self.send("/etc/cni/net.d/10-pods.conflist", json.dumps(network, indent=1).encode())

    def node(self) -> dict[str, t.Any]:
        status, body = self.plane.answer("kube-apiserver", f"/api/v1/nodes/{self.name}", 20)
        return json.loads(body) if status == 200 else {}

    def meet(self, others: t.Sequence[Join]) -> None:
        """Let its pods reach those of the other nodes, by the last rail."""
        network = self.lab.settings["network"]
        rail = network["rails"] - 1
        peers = []
        for other in others:
            pod_range = other.node().get("spec", {}).get("podCIDR")
            if other.name != self.name and pod_range:
                number = config.node_index(other.name)
                peers.append((pod_range, config.rail_address(network["rail_prefix"], rail, number)))
        self.send("/etc/kubernetes/node", self.about(peers))
        with self.phase("its pods' ways to others laid"):
            self.run("systemctl enable --quiet lab-pods; systemctl restart lab-pods")

    def ready(self) -> None:
        with self.phase("ready"):
            limit = time.monotonic() + self.settings["limits"]["join"]
            while True:
                conditions = self.node().get("status", {}).get("conditions", [])
                ready = {condition["type"]: condition for condition in conditions}.get("Ready", {})
                if ready.get("status") == "True":
                    return
                if time.monotonic() > limit:
                    raise LabError(f"{self.name} is not ready: {ready.get('message', 'it has said nothing yet')}")
                time.sleep(1)

    def whole(self, served_at: str) -> None:
        forward(self.lab, self.name)
        self.install(served_at)
        self.pod_network()
        self.ready()


def serve(lab: Lab, directory: pathlib.Path) -> pathlib.Path:
    """Put what guests fetch into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    program = tools.get("pause", lab.places, lab.settings).read_bytes()
    image = oci.Image({"pause": program}, entrypoint=["/pause"], mode=0o755)
    oci.oci_archive(directory / "pause.tar", image, names=[PAUSE])
    link = directory / "kubelet"
    link.unlink(missing_ok=True)
    link.symlink_to(tools.get("kubelet", lab.places, lab.settings))
    return directory


def join(lab: Lab, plane: ControlPlane, names: t.Sequence[str]) -> None:
    """Bring nodes that run into the cluster that runs, side by side. What is done already is quick."""
    plane.need_ports()
    off = [name for name in names if not lab.pid(name)]
    if off:
        raise LabError(f"joining {', '.join(off)}: not running; 'lab.py up' starts them")
    directory = serve(lab, plane.place / "served")
    port = dns.up(plane)
    joins = [Join(lab, plane, name, port) for name in names]
    all_nodes = [Join(lab, plane, name, port) for name in lab.names() if lab.pid(name)]
    with (
        served(directory, lab.settings["cluster"]["seen_from_guest"]) as address,
        concurrent.futures.ThreadPoolExecutor(max(1, len(joins))) as pool,
    ):
        for done in [pool.submit(node.whole, address) for node in joins]:
            done.result()
        for done in [pool.submit(node.meet, all_nodes) for node in all_nodes if node.node()]:
            done.result()


def leave(settings: t.Mapping[str, t.Any], names: t.Iterable[str]) -> None:
    """Take the nodes' addresses from this machine."""
    for name in names:
        address = f"{address_of(settings, name)}/32"
        shown = subprocess.run(
            ["ip", "route", "show", "table", "local", "exact", address],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        # What still listens there is a node of another lab on this machine.
        if shown.stdout.strip() and not listens(address_of(settings, name), KUBELET_PORT):
            as_root(
                ["ip", "route", "del", "local", address, "dev", "lo"],
                f"taking the address of {name} from this machine",
            )


def listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=5):
            return True
    except OSError:
        return False


__all__ = ["PAUSE", "forward", "join", "leave"]
