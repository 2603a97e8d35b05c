# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The state of a node of Kubernetes, from files below a root, commands, and the API server by kubectl."""

from __future__ import annotations

import hashlib
import os
import re
import time
import typing as t

from .._errors import FabricError
from .._files import is_ours, read_text
from .._formats import from_json
from .._tool_output.listeners import listeners_in
from . import node, work, x509

Json = t.Dict[str, t.Any]
# argv -> exit status, standard output, standard error; None if there is no such program
Run = t.Callable[[t.Sequence[str]], t.Optional[t.Tuple[int, str, str]]]

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
_KUBELET_CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
_PROGRAMS = {
    "kubeadm": ["kubeadm", "version", "-o", "short"],
    "kubelet": ["kubelet", "--version"],
    "kubectl": ["kubectl", "version", "--client", "-o", "json"],
    "containerd": ["containerd", "--version"],
}


class NodeError(FabricError):
    """Something of a node could not be read."""


class Looker:
    """Reads the state of a host whose files are below ``root``."""

    def __init__(self, run: Run, root: str = "/", clock: t.Callable[[], float] = time.time) -> None:
        self.run = run
        self.root = root
        self.clock = clock

    def path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def text(self, path: str) -> str | None:
        return read_text(self.path(path))

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise NodeError("Listing %s: %s; run as root (become: true)" % (path, exc.strerror)) from exc

    def output(self, argv: t.Sequence[str]) -> str:
        """Return the output of a program; an error if it is missing or fails."""
        answer = self.run(argv)
        if answer is None:
            raise NodeError("Running %s: it is not installed on this host; install it" % argv[0])
        rc, out, err = answer
        if rc != 0:
            raise NodeError("Running %s: exit status %d: %s" % (" ".join(argv), rc, (err or out).strip()[-500:]))
        return out

    # --- the host ---

    def host(self) -> Json:
        return {
            "hostname": (self.text("/proc/sys/kernel/hostname") or "").strip(),
            "machine_id": (self.text("/etc/machine-id") or "").strip() or None,
            "memory_mib": node.memory_in(self.text("/proc/meminfo") or ""),
            "cpus": len(re.findall(r"(?m)^processor\s*:", self.text("/proc/cpuinfo") or "")),
            "swap": node.swaps_in(self.text("/proc/swaps") or ""),
            "cgroup": node.cgroup_in(self.text("/proc/mounts") or ""),
            "interfaces": node.interfaces_in(from_json(self.output(["ip", "-j", "address"]) or "[]")),
        }

    def programs(self) -> dict[str, str | None]:
        versions: dict[str, str | None] = {}
        for name, argv in _PROGRAMS.items():
            answer = self.run(argv)
            versions[name] = node.version_in(answer[1]) if answer and answer[0] == 0 else None
        return versions

    def runtime(self) -> Json:
        """Return the configuration of containerd, and its owner."""
        text = self.text(CONTAINERD_CONFIG)
        owner = "absent" if text is None else "ours" if is_ours(text) else "foreign"
        if owner == "foreign" and text is not None:
            # dpkg-query(1): exit status 1 if there is no such package.
            package = self.run(["dpkg-query", "-W", "-f", "${Conffiles}\n", "containerd", "containerd.io"])
            digest = node.conffile_in(package[1], CONTAINERD_CONFIG) if package else None
            if digest is not None and _md5(text) == digest:
                owner = "package"
        answer = self.run(["containerd", "config", "dump"])
        config = node.runtime_in(answer[1]) if answer and answer[0] == 0 else None
        return {"config_owner": owner, "config": config}

    def ports(self, numbers: t.Sequence[int]) -> list[Json]:
        """Return which of these ports are in use, and by which process."""
        inodes: dict[str, int] = {}
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for port, inode in listeners_in(self.text(table) or "").items():
                if port in numbers:
                    inodes["socket:[%s]" % inode] = port
        owners = self._owners(set(inodes)) if inodes else {}
        rows: dict[int, Json] = {
            port: {"port": port, "pid": None, "command": None} for port in sorted(set(inodes.values()))
        }
        for inode, (pid, command) in owners.items():
            rows[inodes[inode]].update(pid=pid, command=command)
        return list(rows.values())

    def _owners(self, sockets: set[str]) -> dict[str, tuple[int, str]]:
        owners = {}
        for name in self.names("/proc"):
            if not name.isdigit():
                continue
            try:
                for handle in os.listdir(self.path("/proc/%s/fd" % name)):
                    target = os.readlink(self.path("/proc/%s/fd/%s" % (name, handle)))
                    if target in sockets:
                        owners[target] = (int(name), (read_text(self.path("/proc/%s/comm" % name)) or "").strip())
            except OSError:
                # It has ended meanwhile.
                continue
        return owners

    def modules(self, names: t.Sequence[str]) -> dict[str, bool]:
        """Return whether kernel modules are present. Of those built in, /sys/module has only some with parameters."""
        built_in = self.text("/lib/modules/%s/modules.builtin" % self.release()) or ""
        there = {os.path.basename(line).partition(".")[0].replace("-", "_") for line in built_in.splitlines()}
        return {
            name: os.path.isdir(self.path("/sys/module/%s" % name.replace("-", "_"))) or name.replace("-", "_") in there
            for name in names
        }

    def release(self) -> str:
        return (self.text("/proc/sys/kernel/osrelease") or "").strip()

    def sysctls(self, names: t.Sequence[str]) -> dict[str, str | None]:
        values: dict[str, str | None] = {}
        for name in names:
            text = self.text("/proc/sys/%s" % name.replace(".", "/"))
            values[name] = None if text is None else text.strip()
        return values

    # --- what kubeadm has left ---

    def membership(self, alone: bool = False) -> Json:
        """What kubeadm has left; ``alone``: the lock of this host is the caller's."""
        conf = node.CONF_DIR
        return {
            "kubelet": self._kubelet(conf),
            "bootstrapping": self.text(conf + "/bootstrap-kubelet.conf") is not None,
            "admin": self._kubeconfig(conf + "/admin.conf"),
            "authority": self._authority(conf + "/pki/ca.crt"),
            "manifests": [name for name in self.names(conf + "/manifests") if name.endswith(".yaml")],
            "parked": self.names(node.PARKED),
            "etcd": self.etcd(),
            "started": self._started(alone),
        }

    def manifest(self, name: str) -> str | None:
        """Return the manifest of a static pod, also while it is parked for a restart."""
        text = self.text("%s/manifests/%s.yaml" % (node.CONF_DIR, name))
        return self.text("%s/%s.yaml" % (node.PARKED, name)) if text is None else text

    def etcd_dir(self) -> str:
        return node.etcd_dir_in(self.manifest("etcd"))

    def etcd(self) -> bool:
        """Return whether etcd has data."""
        return bool(self.names(self.etcd_dir() + "/member"))

    def _started(self, alone: bool) -> Json | None:
        """Return the kubeadm at work here, or the mark of an interrupted one, and its state."""
        held, mark = (False, None) if alone else work.holder(self.root)
        mark = mark or work.mark_in(self.text(node.STARTED))
        if mark is None:
            return None
        at_work = held or work.runs(mark, self.root)
        return {
            **{name: mark[name] for name in ("action", "since", "pid")},
            "at_work": at_work,
            "answers": self.answers() if at_work is False else None,
        }

    def answers(self) -> bool | None:
        """Return whether the API server of this host is ready, by admin.conf; None if that is unknown."""
        manifest = self.manifest("kube-apiserver")
        if manifest is None:
            return False
        server = node.api_server_in(manifest)
        if server is None:
            return None
        # kubeadm's certificates of API servers all have this name.
        address = ["--server=" + server, "--tls-server-name=kubernetes"]
        config = "--kubeconfig=" + self.path(node.CONF_DIR + "/admin.conf")
        answer = self.run(["kubectl", config, *address, "--request-timeout=15s", "get", "--raw=/readyz"])
        if answer is None:
            return None
        if answer[0] == 0:
            return True
        return False if "refused" in answer[2] else None

    def _authority(self, path: str) -> dict[str, str] | None:
        """Return an authority's fingerprint, and its key's hash as kubeadm pins it; None if it cannot be read."""
        certificate = x509.read(self.text(path) or "")
        if certificate is None:
            return None
        return {"fingerprint": certificate.fingerprint, "pin": "sha256:" + certificate.public_key}

    def _kubeconfig(self, path: str) -> Json | None:
        """Return server, authority and user of a kubeconfig of kubeadm, without a key."""
        text = self.text(path)
        if text is None:
            return None
        kubeconfig = node.kubeconfig_in(text)
        authority, client = x509.read(kubeconfig.authority), x509.read(kubeconfig.client)
        return {
            "server": kubeconfig.server,
            "authority": authority.fingerprint if authority else None,
            "user": client.common_name if client else None,
        }

    def _kubelet(self, conf: str) -> Json | None:
        kubelet = self._kubeconfig(conf + "/kubelet.conf")
        if kubelet is not None and kubelet["user"] is None:
            # Once the kubelet renews its certificate by itself, kubelet.conf only names the file.
            certificate = x509.read(self.text(_KUBELET_CLIENT) or "")
            kubelet["user"] = certificate.common_name if certificate else None
        return kubelet

    def certificates(self) -> list[Json]:
        """Return when certificates expire; null if one cannot be read."""
        pki = [(name, "%s/pki/%s.crt" % (node.CONF_DIR, name)) for name in node.CERTIFICATES]
        kubeconfigs = [(name, "%s/%s" % (node.CONF_DIR, name)) for name in node.KUBECONFIGS]
        rows = []
        for name, path in [*pki, *kubeconfigs, ("kubelet-client", _KUBELET_CLIENT)]:
            text = self.text(path)
            if text is None:
                continue
            certificate = x509.read(node.kubeconfig_in(text).client if name in node.KUBECONFIGS else text)
            rows.append(
                {
                    "name": name,
                    "path": path,
                    "common_name": certificate.common_name if certificate else None,
                    "not_after": certificate.not_after if certificate else None,
                    "days": int((certificate.not_after - self.clock()) // 86400) if certificate else None,
                    "renewable": name not in node.NOT_RENEWED,
                }
            )
        return rows

    # --- the cluster ---

    def cluster(self, wait: int, sleep: t.Callable[[float], None] = time.sleep) -> Json | None:
        """Return the state of the cluster, by admin.conf; None on a host without a control plane."""
        config = node.CONF_DIR + "/admin.conf"
        if self.text(config) is None:
            return None
        end = self.clock() + wait
        argv = ["kubectl", "--kubeconfig=" + self.path(config), "--request-timeout=15s", "get", "-o", "json"]
        while True:
            answer = self.run([*argv, "nodes"])
            if answer is None:
                return {"reachable": False, "error": "kubectl is not installed on this host"}
            if answer[0] == 0:
                break
            if self.clock() >= end:
                return {"reachable": False, "error": answer[2].strip()[-500:]}
            sleep(2)
        maps = self.output(
            [*argv, "-n", "kube-system", "configmaps", "kubeadm-config", "kubelet-config", "--ignore-not-found"]
        )
        configurations = from_json(maps) if maps.strip() else {}
        if configurations.get("kind") == "ConfigMap":
            configurations = {"items": [configurations]}
        return {
            "reachable": True,
            "error": None,
            "nodes": node.nodes_in(from_json(answer[1])),
            **node.configurations_in(configurations),
        }

    def look(self, params: t.Mapping[str, t.Any]) -> Json:
        """Return everything that was requested."""
        return {
            "host": self.host(),
            "programs": self.programs(),
            "runtime": self.runtime(),
            "ports": self.ports(params["ports"]),
            "modules": self.modules(params["modules"]),
            "sysctls": self.sysctls(params["sysctls"]),
            "membership": self.membership(),
            "certificates": self.certificates(),
            "cluster": self.cluster(params["wait"]) if params["cluster"] else None,
        }


def _md5(text: str) -> str | None:
    """Return the MD5 of a text, as dpkg stores it; None if the system's policy (FIPS) forbids it."""
    try:
        return hashlib.md5(text.encode("utf-8", "surrogateescape")).hexdigest()
    except ValueError:
        return None


__all__ = ("CONTAINERD_CONFIG", "Looker", "NodeError", "Run")
