# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The edges of a look at a node of Kubernetes: files below a root, commands, the API server by kubectl."""

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
from . import node as said
from . import work

Json = t.Dict[str, t.Any]
# argv -> exit status, standard output, standard error; None where there is no such program
Run = t.Callable[[t.Sequence[str]], t.Optional[t.Tuple[int, str, str]]]

CONTAINERD_CONFIG = "/etc/containerd/config.toml"
_PROGRAMS = {
    "kubeadm": ["kubeadm", "version", "-o", "short"],
    "kubelet": ["kubelet", "--version"],
    "kubectl": ["kubectl", "version", "--client", "-o", "json"],
    "containerd": ["containerd", "--version"],
}


class NodeError(FabricError):
    """Something of a node could not be looked at."""


class Looker:
    """Looks at a host whose files are below ``root``."""

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

    def asked(self, argv: t.Sequence[str]) -> str:
        """Return what a program printed; an error where it is there and fails."""
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
            "memory_mib": said.memory_in(self.text("/proc/meminfo") or ""),
            "cpus": len(re.findall(r"(?m)^processor\s*:", self.text("/proc/cpuinfo") or "")),
            "swap": said.swaps_in(self.text("/proc/swaps") or ""),
            "cgroup": said.cgroup_in(self.text("/proc/mounts") or ""),
            "interfaces": said.interfaces_in(from_json(self.asked(["ip", "-j", "address"]) or "[]")),
        }

    def programs(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, argv in _PROGRAMS.items():
            answer = self.run(argv)
            found[name] = said.version_in(answer[1]) if answer and answer[0] == 0 else None
        return found

    def runtime(self) -> Json:
        """What containerd runs with, and whose its configuration is."""
        text = self.text(CONTAINERD_CONFIG)
        owner = "absent" if text is None else "ours" if is_ours(text) else "foreign"
        if owner == "foreign" and text is not None:
            # dpkg-query(1): exit status 1 where it knows no such package.
            listed = self.run(["dpkg-query", "-W", "-f", "${Conffiles}\n", "containerd", "containerd.io"])
            digest = said.conffile_in(listed[1], CONTAINERD_CONFIG) if listed else None
            if digest is not None and _md5(text) == digest:
                owner = "package"
        answer = self.run(["containerd", "config", "dump"])
        config = said.runtime_in(answer[1]) if answer and answer[0] == 0 else None
        return {"config_owner": owner, "config": config}

    def ports(self, wanted: t.Sequence[int]) -> list[Json]:
        """Which of these ports are in use, and by which process."""
        inodes: dict[str, int] = {}
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for port, inode in listeners_in(self.text(table) or "").items():
                if port in wanted:
                    inodes["socket:[%s]" % inode] = port
        owners = self._owners(set(inodes)) if inodes else {}
        rows: dict[int, Json] = {
            port: {"port": port, "pid": None, "command": None} for port in sorted(set(inodes.values()))
        }
        for inode, (pid, command) in owners.items():
            rows[inodes[inode]].update(pid=pid, command=command)
        return list(rows.values())

    def _owners(self, sockets: set[str]) -> dict[str, tuple[int, str]]:
        found = {}
        for name in self.names("/proc"):
            if not name.isdigit():
                continue
            try:
                for handle in os.listdir(self.path("/proc/%s/fd" % name)):
                    target = os.readlink(self.path("/proc/%s/fd/%s" % (name, handle)))
                    if target in sockets:
                        found[target] = (int(name), (read_text(self.path("/proc/%s/comm" % name)) or "").strip())
            except OSError:
                # It has ended in between.
                continue
        return found

    def modules(self, names: t.Sequence[str]) -> dict[str, bool]:
        """Whether modules of the kernel are there. Of those built in, /sys/module has only some with parameters."""
        built_in = self.text("/lib/modules/%s/modules.builtin" % self.release()) or ""
        there = {os.path.basename(line).partition(".")[0].replace("-", "_") for line in built_in.splitlines()}
        return {
            name: os.path.isdir(self.path("/sys/module/%s" % name.replace("-", "_"))) or name.replace("-", "_") in there
            for name in names
        }

    def release(self) -> str:
        return (self.text("/proc/sys/kernel/osrelease") or "").strip()

    def sysctls(self, names: t.Sequence[str]) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name in names:
            text = self.text("/proc/sys/%s" % name.replace(".", "/"))
            found[name] = None if text is None else text.strip()
        return found

    # --- what kubeadm has left ---

    def membership(self, alone: bool = False) -> Json:
        """What kubeadm has left; ``alone``: the lock of this host is the caller's."""
        conf = said.CONF_DIR
        return {
            "kubelet": self._kubelet(conf),
            "bootstrapping": self.text(conf + "/bootstrap-kubelet.conf") is not None,
            "admin": said.kubeconfig_in(self.text(conf + "/admin.conf")),
            "authority": said.authority_in(self.text(conf + "/pki/ca.crt")),
            "manifests": [name for name in self.names(conf + "/manifests") if name.endswith(".yaml")],
            "parked": self.names(said.PARKED),
            "etcd": self.etcd(),
            "started": self._started(alone),
        }

    def manifest(self, name: str) -> str | None:
        """The manifest of a static pod, also where it waits for the end of a restart."""
        text = self.text("%s/manifests/%s.yaml" % (said.CONF_DIR, name))
        return self.text("%s/%s.yaml" % (said.PARKED, name)) if text is None else text

    def etcd_dir(self) -> str:
        return said.etcd_dir_in(self.manifest("etcd"))

    def etcd(self) -> bool:
        """Whether there is data of etcd."""
        return bool(self.names(self.etcd_dir() + "/member"))

    def _started(self, alone: bool) -> Json | None:
        """Who is at work here with kubeadm, or the mark of one that did not come to its end, and what became of it."""
        held, mark = (False, None) if alone else work.holder(self.root)
        mark = mark or work.mark_in(self.text(said.STARTED))
        if mark is None:
            return None
        at_work = held or work.runs(mark, self.root)
        return {
            **{name: mark[name] for name in ("action", "since", "pid")},
            "at_work": at_work,
            "answers": self.answers() if at_work is False else None,
        }

    def answers(self) -> bool | None:
        """Whether the API server of this host is ready, asked as the administrator; None: it cannot be judged."""
        manifest = self.manifest("kube-apiserver")
        if manifest is None:
            return False
        server = said.api_server_in(manifest)
        if server is None:
            return None
        # kubeadm's certificates of API servers all have this name.
        address = ["--server=" + server, "--tls-server-name=kubernetes"]
        config = "--kubeconfig=" + self.path(said.CONF_DIR + "/admin.conf")
        answer = self.run(["kubectl", config, *address, "--request-timeout=15s", "get", "--raw=/readyz"])
        if answer is None:
            return None
        if answer[0] == 0:
            return True
        return False if "refused" in answer[2] else None

    def _kubelet(self, conf: str) -> Json | None:
        found = said.kubeconfig_in(self.text(conf + "/kubelet.conf"))
        if found is not None and found["user"] is None:
            # Once the kubelet renews its certificate by itself, kubelet.conf only names the file.
            rows = self._client()
            found["user"] = rows[0]["common_name"] if rows else None
        return found

    def _client(self) -> list[Json]:
        path = "/var/lib/kubelet/pki/kubelet-client-current.pem"
        text = self.text(path)
        return [] if text is None else [said.certificate_row("kubelet-client", path, text, self.clock())]

    def certificates(self) -> list[Json]:
        rows = []
        for name in said.CERTIFICATES:
            path = "%s/pki/%s.crt" % (said.CONF_DIR, name)
            text = self.text(path)
            if text is not None:
                rows.append(said.certificate_row(name, path, text, self.clock()))
        for name in said.KUBECONFIGS:
            path = "%s/%s" % (said.CONF_DIR, name)
            text = self.text(path)
            if text is not None:
                rows.append(said.certificate_row(name, path, said.client_pem(text), self.clock()))
        # The kubelet renews its own.
        return [*rows, *({**one, "renewable": False} for one in self._client())]

    # --- the cluster ---

    def cluster(self, wait: int, sleep: t.Callable[[float], None] = time.sleep) -> Json | None:
        """What the API server says, asked as the administrator; None on a host without a control plane."""
        config = said.CONF_DIR + "/admin.conf"
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
        maps = self.asked(
            [*argv, "-n", "kube-system", "configmaps", "kubeadm-config", "kubelet-config", "--ignore-not-found"]
        )
        configurations = from_json(maps) if maps.strip() else {}
        if configurations.get("kind") == "ConfigMap":
            configurations = {"items": [configurations]}
        return {
            "reachable": True,
            "error": None,
            "nodes": said.nodes_in(from_json(answer[1])),
            **said.configurations_in(configurations),
        }

    def look(self, params: t.Mapping[str, t.Any]) -> Json:
        """Return everything that was asked for."""
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
    """Return the MD5 of a text, which is what dpkg keeps; None where the system's policy (FIPS) has none."""
    try:
        return hashlib.md5(text.encode("utf-8", "surrogateescape")).hexdigest()
    except ValueError:
        return None


__all__ = ("CONTAINERD_CONFIG", "Looker", "NodeError", "Run")
