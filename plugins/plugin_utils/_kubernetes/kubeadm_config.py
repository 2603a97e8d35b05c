# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Configurations for kubeadm (kubeadm.k8s.io/v1beta4, since Kubernetes 1.31), and how one in a cluster differs."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...module_utils._errors import FabricError

Json = t.Dict[str, t.Any]

API = "kubeadm.k8s.io/v1beta4"
OLDEST_MINOR = 31
KINDS = ("init", "join")

# What a cluster's settings may have. The second is what a value must be.
SETTINGS: dict[str, type | tuple[type, ...]] = {
    "version": str,
    "cluster_name": str,
    "endpoint": str,
    "bind_port": int,
    "pod_network": str,
    "service_network": str,
    "dns_domain": str,
    "certificate_names": list,
    "image_repository": str,
    "etcd_image_tag": str,
    "dns_image_tag": str,
    "proxy_mode": str,
    "skip_phases": list,
    "control_plane_taint": bool,
    "kubelet": dict,
    "cluster_configuration": dict,
    "timeouts": dict,
    "patches_directory": str,
    "cri_socket": str,
}

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(r"%s(?:\.%s)*\Z" % (_LABEL, _LABEL))
_ENDPOINT = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/\s]+)):([0-9]{1,5})\Z")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class SettingsError(FabricError):
    """What a site wants of its cluster cannot be."""


def version(text: t.Any) -> tuple[int, int, int] | None:
    """Return the parts of X.Y.Z, also after a v; None if it is something else."""
    found = _VERSION.match(str(text).strip()[1:] if str(text).strip().startswith("v") else str(text).strip())
    return (int(found.group(1)), int(found.group(2)), int(found.group(3))) if found else None


def is_name(text: t.Any) -> bool:
    """Whether something may be the name of a Node: a DNS subdomain (RFC 1123)."""
    return isinstance(text, str) and len(text) <= 253 and _NAME.match(text) is not None


def endpoint(text: str) -> tuple[str, int] | None:
    """Return host and port of HOST:PORT or [ADDRESS]:PORT."""
    found = _ENDPOINT.match(text)
    if not found or not 0 < int(found.group(3)) < 65536:
        return None
    return found.group(1) or found.group(2), int(found.group(3))


def networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return one network, or one of each family after a comma; an error for what is none."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",")]


def problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return what is wrong with a cluster's settings in themselves."""
    found = [
        "%s must be %s, not %r" % (name, getattr(kind, "__name__", kind), settings.get(name))
        for name, kind in SETTINGS.items()
        if not isinstance(settings.get(name), kind) or (kind is int and isinstance(settings.get(name), bool))
    ]
    found += ["%s is not a setting of a cluster" % name for name in sorted(set(settings) - set(SETTINGS))]
    if found:
        return found
    parts = version(settings["version"])
    if parts is None:
        found.append("version must be X.Y.Z, not %r" % settings["version"])
    elif parts[:2] < (1, OLDEST_MINOR):
        found.append(
            "version %s is older than 1.%d, the first whose kubeadm reads %s" % (settings["version"], OLDEST_MINOR, API)
        )
    if not is_name(settings["cluster_name"]):
        found.append("cluster_name %r is not a valid DNS name" % settings["cluster_name"])
    if not is_name(settings["dns_domain"]):
        found.append("dns_domain %r is not a valid DNS name" % settings["dns_domain"])
    if endpoint(settings["endpoint"]) is None:
        found.append("endpoint must be HOST:PORT, not %r" % settings["endpoint"])
    if not 0 < settings["bind_port"] < 65536:
        found.append("bind_port %d is not a valid port" % settings["bind_port"])
    found += [
        "certificate name %r is neither a name nor an address" % one
        for one in settings["certificate_names"]
        if not _alternative(one)
    ]
    if settings["patches_directory"] and not settings["patches_directory"].startswith("/"):
        found.append("patches_directory must be an absolute path, not %r" % settings["patches_directory"])
    found += _network_problems(settings)
    return found


def _alternative(one: t.Any) -> bool:
    if not isinstance(one, str):
        return False
    try:
        ipaddress.ip_address(one)
    except ValueError:
        return is_name(one[2:] if one.startswith("*.") else one)
    return True


def _network_problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    found, known = [], {}
    for name in ("pod_network", "service_network"):
        try:
            known[name] = networks(settings[name])
        except ValueError as exc:
            found.append("%s: %s" % (name, exc))
    for pods in known.get("pod_network", []):
        found += [
            "pod_network %s and service_network %s overlap" % (pods, services)
            for services in known.get("service_network", [])
            if pods.version == services.version and pods.overlaps(services)
        ]
    for services in known.get("service_network", []):
        # --service-cluster-ip-range of the API server takes up to 20 bits of IPv4 and 112 of prefix of IPv6.
        least = 12 if services.version == 4 else 108
        if services.prefixlen < least:
            found.append("service_network %s is larger than /%d, which the API server refuses" % (services, least))
    return found


def _registration(settings: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any]) -> Json:
    made: Json = {
        "name": node["name"],
        "criSocket": settings["cri_socket"],
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": [{"name": "node-ip", "value": node["address"]}],
    }
    if node["control_plane"] and not settings["control_plane_taint"]:
        # An empty list, and not null, which stands for kubeadm's own taint.
        made["taints"] = []
    return made


def _of_both_kinds(settings: t.Mapping[str, t.Any]) -> Json:
    """Return fields that InitConfiguration and JoinConfiguration have in common."""
    made: Json = {}
    if settings["timeouts"]:
        made["timeouts"] = dict(settings["timeouts"])
    if settings["patches_directory"]:
        made["patches"] = {"directory": settings["patches_directory"]}
    return made


def cluster_configuration(settings: t.Mapping[str, t.Any]) -> Json:
    """Return what kubeadm keeps of a cluster."""
    host, _port = t.cast("tuple[str, int]", endpoint(settings["endpoint"]))
    names = list(dict.fromkeys([host, *settings["certificate_names"]]))
    made: Json = {
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": settings["cluster_name"],
        "kubernetesVersion": "v" + settings["version"].lstrip("v"),
        "controlPlaneEndpoint": settings["endpoint"],
        "networking": {
            "podSubnet": settings["pod_network"],
            "serviceSubnet": settings["service_network"],
            "dnsDomain": settings["dns_domain"],
        },
        "apiServer": {"certSANs": names},
    }
    if settings["image_repository"]:
        made["imageRepository"] = settings["image_repository"]
    if settings["etcd_image_tag"]:
        made["etcd"] = {"local": {"dataDir": "/var/lib/etcd", "imageTag": settings["etcd_image_tag"]}}
    if settings["dns_image_tag"]:
        made["dns"] = {"imageTag": settings["dns_image_tag"]}
    return _merged(made, settings["cluster_configuration"])


def _merged(below: t.Any, above: t.Any) -> t.Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}
    return above


def kubelet_configuration(settings: t.Mapping[str, t.Any]) -> Json:
    """Return what all kubelets of a cluster have in common."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        **settings["kubelet"],
    }


def documents(settings: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any], kind: str, pin: str = "") -> list[Json]:
    """Return the documents for `kubeadm init` or `kubeadm join` of one node; secrets come later."""
    if kind not in KINDS:
        raise SettingsError("Writing a configuration for kubeadm: %r is neither %s" % (kind, " nor ".join(KINDS)))
    wrong = problems(settings)
    if wrong:
        raise SettingsError("Writing a configuration for kubeadm: %s" % "; ".join(wrong))
    if kind == "join":
        join: Json = {
            "apiVersion": API,
            "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": {"apiServerEndpoint": settings["endpoint"], "caCertHashes": [pin]}},
            "nodeRegistration": _registration(settings, node),
        }
        if node["control_plane"]:
            join["controlPlane"] = {
                "localAPIEndpoint": {"advertiseAddress": node["address"], "bindPort": settings["bind_port"]}
            }
        return [{**join, **_of_both_kinds(settings)}]
    init: Json = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        # kubeadm makes a token in any case; this one is unused, and soon gone.
        "bootstrapTokens": [{"ttl": "1m0s", "description": "created by kubeadm init, unused"}],
        "localAPIEndpoint": {"advertiseAddress": node["address"], "bindPort": settings["bind_port"]},
        "nodeRegistration": _registration(settings, node),
    }
    init.update(_of_both_kinds(settings))
    if settings["skip_phases"]:
        init["skipPhases"] = list(settings["skip_phases"])
    made = [init, cluster_configuration(settings), kubelet_configuration(settings)]
    if settings["proxy_mode"]:
        proxy = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}
        made.append({**proxy, "mode": settings["proxy_mode"]})
    return made


class Difference(t.NamedTuple):
    """A field that is otherwise in the cluster than it is wanted."""

    path: str
    wanted: t.Any
    live: t.Any


def differences(wanted: t.Any, live: t.Any, path: str = "") -> list[Difference]:
    """Return the fields of ``wanted`` that ``live`` has otherwise. What only ``live`` has is kubeadm's defaults."""
    if isinstance(wanted, dict) and wanted:
        found = []
        for name in sorted(wanted):
            if path or name not in ("apiVersion", "kind"):
                there = live.get(name) if isinstance(live, dict) else None
                found += differences(wanted[name], there, "%s.%s" % (path, name) if path else name)
        return found
    if path.endswith("certSANs") and isinstance(live, list):
        missing = [one for one in wanted if one not in live]
        return [Difference(path, wanted, live)] if missing else []
    return [] if same(wanted, live) else [Difference(path, wanted, live)]


def same(wanted: t.Any, live: t.Any) -> bool:
    """Whether two values mean the same: kubeadm leaves out what is empty, and writes durations as Go does."""
    if live is None and wanted in ([], {}, ""):
        return True
    if isinstance(wanted, str) and isinstance(live, str):
        return wanted == live or (seconds(wanted) is not None and seconds(wanted) == seconds(live))
    return bool(wanted == live)


def seconds(text: str) -> float | None:
    """Return the seconds of a duration of Go, such as 10m or 10m0s (time.ParseDuration); None of other text."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def subset(live: t.Any, wanted: t.Any) -> t.Any:
    """Return of ``live`` what ``wanted`` has a word about, so that the two can be shown side by side."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        return {name: subset(live[name], wanted[name]) for name in wanted if name in live}
    return live


__all__ = (
    "API",
    "KINDS",
    "SETTINGS",
    "Difference",
    "SettingsError",
    "cluster_configuration",
    "differences",
    "documents",
    "endpoint",
    "is_name",
    "kubelet_configuration",
    "networks",
    "problems",
    "subset",
    "version",
)
