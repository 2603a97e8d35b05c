# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Configurations for kubeadm (kubeadm.k8s.io/v1beta4, since Kubernetes 1.31), and their differences from a cluster."""

from __future__ import annotations

import ipaddress
import os
import re
import typing as t

from ...module_utils._errors import FabricError

Json = t.Dict[str, t.Any]

API = "kubeadm.k8s.io/v1beta4"
OLDEST_MINOR = 31
KINDS = ("init", "join")
# Where the API server writes its audit log, and how long it keeps it: days, files, MB for each file.
AUDIT_LOG = "/var/log/kubernetes/audit/audit.log"
AUDIT_LIMITS = {"audit-log-maxage": "30", "audit-log-maxbackup": "10", "audit-log-maxsize": "100"}

# The settings of a cluster, and the types of their values.
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
    "audit_policy": str,
    "encryption": str,
    "cri_socket": str,
}

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(r"%s(?:\.%s)*\Z" % (_LABEL, _LABEL))
_ENDPOINT = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/\s]+)):([0-9]{1,5})\Z")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class SettingsError(FabricError):
    """The settings of a cluster are not possible."""


def version(text: t.Any) -> tuple[int, int, int] | None:
    """Return the parts of X.Y.Z, also after a v; None for other text."""
    match = _VERSION.match(str(text).strip()[1:] if str(text).strip().startswith("v") else str(text).strip())
    return (int(match.group(1)), int(match.group(2)), int(match.group(3))) if match else None


def is_name(text: t.Any) -> bool:
    """Return whether a value may be the name of a Node: a DNS subdomain (RFC 1123)."""
    return isinstance(text, str) and len(text) <= 253 and _NAME.match(text) is not None


def endpoint(text: str) -> tuple[str, int] | None:
    """Return host and port of HOST:PORT or [ADDRESS]:PORT."""
    match = _ENDPOINT.match(text)
    if not match or not 0 < int(match.group(3)) < 65536:
        return None
    return match.group(1) or match.group(2), int(match.group(3))


def networks(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return one network, or one of each family, separated by a comma; raise ValueError if one is invalid."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",")]


def problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return what is wrong with a cluster's settings."""
    messages = [
        "%s must be %s, not %r" % (name, getattr(kind, "__name__", kind), settings.get(name))
        for name, kind in SETTINGS.items()
        if not isinstance(settings.get(name), kind) or (kind is int and isinstance(settings.get(name), bool))
    ]
    messages += ["%s is not a setting of a cluster" % name for name in sorted(set(settings) - set(SETTINGS))]
    if messages:
        return messages
    parts = version(settings["version"])
    if parts is None:
        messages.append("version must be X.Y.Z, not %r" % settings["version"])
    elif parts[:2] < (1, OLDEST_MINOR):
        messages.append(
            "version %s is older than 1.%d, the first whose kubeadm reads %s" % (settings["version"], OLDEST_MINOR, API)
        )
    if not is_name(settings["cluster_name"]):
        messages.append("cluster_name %r is not a valid DNS name" % settings["cluster_name"])
    if not is_name(settings["dns_domain"]):
        messages.append("dns_domain %r is not a valid DNS name" % settings["dns_domain"])
    if endpoint(settings["endpoint"]) is None:
        messages.append("endpoint must be HOST:PORT, not %r" % settings["endpoint"])
    if not 0 < settings["bind_port"] < 65536:
        messages.append("bind_port %d is not a valid port" % settings["bind_port"])
    messages += [
        "certificate name %r is neither a name nor an address" % alternative
        for alternative in settings["certificate_names"]
        if not _is_alternative_name(alternative)
    ]
    messages += [
        "%s must be an absolute path, not %r" % (name, settings[name])
        for name in ("patches_directory", "audit_policy", "encryption")
        if settings[name] and not settings[name].startswith("/")
    ]
    messages += _network_problems(settings)
    return messages


def _is_alternative_name(value: t.Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return is_name(value[2:] if value.startswith("*.") else value)
    return True


def _network_problems(settings: t.Mapping[str, t.Any]) -> list[str]:
    messages, known = [], {}
    for name in ("pod_network", "service_network"):
        try:
            known[name] = networks(settings[name])
        except ValueError as exc:
            messages.append("%s: %s" % (name, exc))
    for pods in known.get("pod_network", []):
        messages += [
            "pod_network %s and service_network %s overlap" % (pods, services)
            for services in known.get("service_network", [])
            if pods.version == services.version and pods.overlaps(services)
        ]
    for services in known.get("service_network", []):
        # --service-cluster-ip-range of the API server takes up to 20 bits of IPv4 and 112 of prefix of IPv6.
        min_prefix = 12 if services.version == 4 else 108
        if services.prefixlen < min_prefix:
            messages.append(
                "service_network %s is larger than /%d, which the API server refuses" % (services, min_prefix)
            )
    return messages


def _registration(settings: t.Mapping[str, t.Any], node: t.Mapping[str, t.Any]) -> Json:
    registration: Json = {
        "name": node["name"],
        "criSocket": settings["cri_socket"],
        "imagePullPolicy": "IfNotPresent",
        "kubeletExtraArgs": [{"name": "node-ip", "value": node["address"]}],
    }
    if node["control_plane"] and not settings["control_plane_taint"]:
        # An empty list, not null, which means kubeadm's own taint.
        registration["taints"] = []
    return registration


def _common_fields(settings: t.Mapping[str, t.Any]) -> Json:
    """Return fields that InitConfiguration and JoinConfiguration have in common."""
    fields: Json = {}
    if settings["timeouts"]:
        fields["timeouts"] = dict(settings["timeouts"])
    if settings["patches_directory"]:
        fields["patches"] = {"directory": settings["patches_directory"]}
    return fields


def cluster_configuration(settings: t.Mapping[str, t.Any]) -> Json:
    """Return the configuration that kubeadm stores in the cluster."""
    host, _port = t.cast("tuple[str, int]", endpoint(settings["endpoint"]))
    names = list(dict.fromkeys([host, *settings["certificate_names"]]))
    configuration: Json = {
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
        configuration["imageRepository"] = settings["image_repository"]
    if settings["etcd_image_tag"]:
        configuration["etcd"] = {"local": {"dataDir": "/var/lib/etcd", "imageTag": settings["etcd_image_tag"]}}
    if settings["dns_image_tag"]:
        configuration["dns"] = {"imageTag": settings["dns_image_tag"]}
    configuration = _merge(configuration, settings["cluster_configuration"])
    for name, items in _api_server_files(settings).items():
        configuration["apiServer"][name] = [*items, *configuration["apiServer"].get(name, [])]
    return configuration


def _api_server_files(settings: t.Mapping[str, t.Any]) -> dict[str, list[Json]]:
    """Return the API server's arguments and volumes for its files of policy and keys.

    https://kubernetes.io/docs/tasks/debug/debug-cluster/audit and .../administer-cluster/encrypt-data
    """
    arguments: dict[str, str] = {}
    directories: dict[str, Json] = {}
    if settings["audit_policy"]:
        directories["audit-log"] = {"hostPath": os.path.dirname(AUDIT_LOG), "pathType": "DirectoryOrCreate"}
        arguments.update({"audit-policy-file": settings["audit_policy"], "audit-log-path": AUDIT_LOG, **AUDIT_LIMITS})
    if settings["encryption"]:
        arguments["encryption-provider-config"] = settings["encryption"]
        arguments["encryption-provider-config-automatic-reload"] = "true"
    for name in ("audit_policy", "encryption"):
        if settings[name]:
            # The directory, as a file that is replaced stays the old one in the container.
            kept = {"hostPath": os.path.dirname(settings[name]), "pathType": "Directory", "readOnly": True}
            directories[name.replace("_", "-")] = kept
    volumes = [{"name": name, "mountPath": item["hostPath"], **item} for name, item in directories.items()]
    extra: dict[str, list[Json]] = {
        "extraArgs": [{"name": name, "value": value} for name, value in arguments.items()],
        "extraVolumes": volumes,
    }
    return {name: items for name, items in extra.items() if items}


def _merge(below: t.Any, above: t.Any) -> t.Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{name: _merge(below.get(name), value) for name, value in above.items()}}
    return above


def kubelet_configuration(settings: t.Mapping[str, t.Any]) -> Json:
    """Return the configuration of all kubelets of a cluster."""
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
    messages = problems(settings)
    if messages:
        raise SettingsError("Writing a configuration for kubeadm: %s" % "; ".join(messages))
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
        return [{**join, **_common_fields(settings)}]
    init: Json = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        # kubeadm always creates a token; this one is unused and expires soon.
        "bootstrapTokens": [{"ttl": "1m0s", "description": "created by kubeadm init, unused"}],
        "localAPIEndpoint": {"advertiseAddress": node["address"], "bindPort": settings["bind_port"]},
        "nodeRegistration": _registration(settings, node),
    }
    init.update(_common_fields(settings))
    if settings["skip_phases"]:
        init["skipPhases"] = list(settings["skip_phases"])
    configurations = [init, cluster_configuration(settings), kubelet_configuration(settings)]
    if settings["proxy_mode"]:
        proxy = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}
        configurations.append({**proxy, "mode": settings["proxy_mode"]})
    return configurations


class Difference(t.NamedTuple):
    """A field whose live value is not the desired one."""

    path: str
    desired: t.Any
    live: t.Any


def differences(desired: t.Any, live: t.Any, path: str = "") -> list[Difference]:
    """Return the fields of ``desired`` that differ in ``live``. Those in ``live`` only are kubeadm's defaults."""
    if isinstance(desired, dict) and desired:
        rows = []
        for name in sorted(desired):
            if path or name not in ("apiVersion", "kind"):
                value = live.get(name) if isinstance(live, dict) else None
                rows += differences(desired[name], value, "%s.%s" % (path, name) if path else name)
        return rows
    if path.endswith("certSANs") and isinstance(live, list):
        missing = [entry for entry in desired if entry not in live]
        return [Difference(path, desired, live)] if missing else []
    return [] if equal(desired, live) else [Difference(path, desired, live)]


def equal(desired: t.Any, live: t.Any) -> bool:
    """Return whether two values are equivalent: kubeadm omits empty ones, and writes durations as Go does."""
    if live is None and desired in ([], {}, ""):
        return True
    if isinstance(desired, str) and isinstance(live, str):
        return desired == live or (seconds(desired) is not None and seconds(desired) == seconds(live))
    return bool(desired == live)


def seconds(text: str) -> float | None:
    """Return the seconds of a duration of Go, such as 10m or 10m0s (time.ParseDuration); None of other text."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))


def subset(live: t.Any, desired: t.Any) -> t.Any:
    """Return the fields of ``live`` that ``desired`` has, for a diff of the two."""
    if isinstance(live, dict) and isinstance(desired, dict):
        return {name: subset(live[name], desired[name]) for name in desired if name in live}
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
