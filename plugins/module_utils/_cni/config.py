# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""CNI configurations: built from typed options, read from text, compared by what they mean."""

from __future__ import annotations

import copy
import ipaddress
import json
import typing as t
from difflib import get_close_matches

from .._errors import FabricError

Config = t.Dict[str, t.Any]

# pkg/version/version.go of containernetworking/cni 1.3.1.
VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
# Lists of plugins came with 0.3.0 of the specification.
LIST_VERSIONS = VERSIONS[2:]

# The type of each key: the plugins are written in Go, whose JSON reader refuses another type when the pod starts.
# A tuple holds the values that the plugin accepts.
_SWITCH = ("on", "off")
_LINK_STATE = ("auto", "enable", "disable")
_COMMON = {
    "cniVersion": "str",
    "name": "str",
    "type": "str",
    "capabilities": "dict",
    "ipam": "dict",
    "dns": "dict",
    "prevResult": "dict",
    "args": "dict",
    "runtimeConfig": "dict",
}
# From the NetConf of each plugin: containernetworking/plugins 1.9.1, ipoib-cni, sriov-cni and ib-sriov-cni (their
# pkg/types/types.go and configuration references), rdma-cni 1.6.0.
PLUGINS: dict[str, dict[str, t.Any]] = {
    "host-device": {"device": "str", "hwaddr": "str", "kernelpath": "str", "pciBusID": "str"},
    "macvlan": {
        "master": "str",
        "mode": ("bridge", "private", "vepa", "passthru"),
        "mtu": "int",
        "mac": "str",
        "linkInContainer": "bool",
        "bcqueuelen": "int",
    },
    "ipvlan": {"master": "str", "mode": ("l2", "l3", "l3s"), "mtu": "int", "linkInContainer": "bool"},
    "ipoib": {"master": "str"},
    "sriov": {
        "deviceID": "str",
        "master": "str",
        "vlan": "int",
        "vlanQoS": "int",
        "vlanProto": ("802.1q", "802.1ad"),
        "mac": "str",
        "min_tx_rate": "int",
        "max_tx_rate": "int",
        "spoofchk": _SWITCH,
        "trust": _SWITCH,
        "link_state": _LINK_STATE,
        "logLevel": ("panic", "error", "warning", "info", "debug"),
        "logFile": "str",
    },
    "ib-sriov": {
        "deviceID": "str",
        "master": "str",
        "pkey": "str",
        "link_state": _LINK_STATE,
        "rdmaIsolation": "bool",
        "ibKubernetesEnabled": "bool",
        "vfioPciMode": "bool",
        "publishPfGuid": "bool",
        "kubeconfig": "str",
    },
    "rdma": {"deviceID": "str"},
    "tuning": {
        "sysctl": "dict",
        "mac": "str",
        "promisc": "bool",
        "mtu": "int",
        "txQLen": "int",
        "allmulti": "bool",
        "dataDir": "str",
    },
    "sbr": {"table": "int"},
}
# The binary of ib-sriov-cni goes by either name.
_BINARY_ALIASES = {"ib-sriov-cni": "ib-sriov"}
MAIN = ("host-device", "macvlan", "ipvlan", "ipoib", "sriov", "ib-sriov")
CHAINED = ("rdma", "tuning", "sbr")

_LIST = {
    "cniVersion": "str",
    "cniVersions": "list",
    "name": "str",
    "disableCheck": "bool",
    "disableGC": "bool",
    "loadOnlyInlinedPlugins": "bool",
    "plugins": "list",
}
_ROUTE = {"dst": "str", "gw": "str", "mtu": "int", "advmss": "int", "priority": "int", "table": "int", "scope": "int"}
_DNS = {"nameservers": "list", "domain": "str", "search": "list", "options": "list"}
_ADDRESS = {"address": "str", "gateway": "str"}
_WHEREABOUTS_RANGE = {"range": "str", "range_start": "str", "range_end": "str", "exclude": "list"}
_HOST_LOCAL_RANGE = {"subnet": "str", "rangeStart": "str", "rangeEnd": "str", "gateway": "str"}
# pkg/types/types.go of whereabouts 0.9.4; IPAMConfig of host-local, static and dhcp in containernetworking/plugins.
IPAM: dict[str, dict[str, t.Any]] = {
    "whereabouts": {
        **_WHEREABOUTS_RANGE,
        "type": "str",
        "ipRanges": "list",
        "gateway": "str",
        "network_name": "str",
        "configuration_path": "str",
        "enable_overlapping_ranges": "bool",
        "node_slice_size": "str",
        "routes": "list",
        "addresses": "list",
        "dns": "dict",
        "kubernetes": "dict",
        "log_file": "str",
        "log_level": "str",
        "leader_lease_duration": "int",
        "leader_renew_deadline": "int",
        "leader_retry_period": "int",
        "reconciler_cron_expression": "str",
        "sleep_for_race": "int",
        "datastore": "str",
        "etcd_host": "str",
        "etcd_username": "str",
        "etcd_password": "str",
        "etcd_key_file": "str",
        "etcd_cert_file": "str",
        "etcd_ca_cert_file": "str",
    },
    "host-local": {
        **_HOST_LOCAL_RANGE,
        "type": "str",
        "ranges": "list",
        "routes": "list",
        "dataDir": "str",
        "resolvConf": "str",
    },
    "static": {"type": "str", "addresses": "list", "routes": "list", "dns": "dict"},
    "dhcp": {"type": "str", "daemonSocketPath": "str", "provide": "list", "request": "list", "priority": "int"},
}
_INSIDE = {"routes": _ROUTE, "addresses": _ADDRESS, "ipRanges": _WHEREABOUTS_RANGE}

# Options are the plugins' keys in snake case; these keys are written differently.
_SPECIAL = {
    "pci_bus_id": "pciBusID",
    "device_id": "deviceID",
    "vlan_qos": "vlanQoS",
    "tx_q_len": "txQLen",
    "link_in_container": "linkInContainer",
    "vlan_proto": "vlanProto",
    "log_level": "logLevel",
    "log_file": "logFile",
    "rdma_isolation": "rdmaIsolation",
    "ib_kubernetes_enabled": "ibKubernetesEnabled",
    "data_dir": "dataDir",
    "resolv_conf": "resolvConf",
    "ip_ranges": "ipRanges",
    "daemon_socket_path": "daemonSocketPath",
    "range_start": "rangeStart",
    "range_end": "rangeEnd",
}


class ConfigError(FabricError):
    """A text is not a CNI configuration; ``code`` is the lint's."""

    def __init__(self, text: str, code: str = "invalid_config") -> None:
        super().__init__(text)
        self.code = code


def option_to_key(option: str, known: t.Container[str]) -> str:
    """Return the plugin's key for an option: whereabouts writes range_start, host-local rangeStart."""
    if option in known:
        return option
    return _SPECIAL.get(option, option)


def _keys(options: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any]) -> Config:
    result: Config = {}
    for option, value in options.items():
        if value is None:
            continue
        key = option_to_key(option, known)
        inside = _HOST_LOCAL_RANGE if key == "ranges" else _INSIDE.get(key)
        result[key] = _inside(value, inside) if inside else value
    return result


def _inside(value: t.Any, known: t.Mapping[str, t.Any]) -> t.Any:
    if isinstance(value, list):
        return [_inside(item, known) for item in value]
    return _keys(value, known) if isinstance(value, dict) else value


def build(options: t.Mapping[str, t.Any], cni_version: str) -> Config:
    """Return the configuration for one attachment's typed options (None is an option that is not set)."""
    kind = options["type"]
    own = {key: value for key, value in options.items() if key not in ("type", "ipam", "chain")}
    plugin = {"type": kind, **_keys(own, PLUGINS[kind])}
    ipam = options.get("ipam") or {"type": "none"}
    if ipam["type"] != "none":
        plugin["ipam"] = _keys(ipam, IPAM[ipam["type"]])
    chain = options.get("chain") or []
    if not chain:
        return {"cniVersion": cni_version, **plugin}
    plugins = [plugin]
    for link in chain:
        chained = _keys(link, PLUGINS[link["type"]])
        if "sysctl" in chained:
            chained["sysctl"] = {name: str(value) for name, value in chained["sysctl"].items()}
        plugins.append(chained)
    return {"cniVersion": cni_version, "plugins": plugins}


def _pairs(pairs: list[tuple[str, t.Any]]) -> Config:
    result: Config = {}
    for key, value in pairs:
        if key in result:
            raise ConfigError("the key %s occurs twice, and the last one would silently win" % key, "invalid_json")
        result[key] = value
    return result


def parse(text: t.Any) -> Config:
    """Return the configuration in a text (or a copy of one that is parsed already)."""
    value = copy.deepcopy(text) if isinstance(text, dict) else _from_json(str(text))
    if not isinstance(value, dict):
        raise ConfigError("a CNI configuration must be a JSON object, not %s" % type(value).__name__)
    if "plugins" in value:
        if not isinstance(value["plugins"], list) or not value["plugins"]:
            raise ConfigError("plugins must be a list of at least one plugin")
        if not all(isinstance(plugin, dict) for plugin in value["plugins"]):
            raise ConfigError("each entry of plugins must be an object")
    for plugin in plugins(value):
        if not isinstance(plugin.get("type"), str) or not plugin["type"]:
            raise ConfigError("a plugin without type")
        if plugin.get("ipam") is not None and not isinstance(plugin["ipam"], dict):
            raise ConfigError("ipam must be an object")
    return value


def _from_json(text: str) -> t.Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except json.JSONDecodeError as exc:
        lines = text.splitlines() or [""]
        line = lines[min(exc.lineno, len(lines)) - 1].strip()
        raise ConfigError(
            "invalid JSON: %s at line %d, column %d, near '%s'" % (exc.msg, exc.lineno, exc.colno, line[:60]),
            "invalid_json",
        ) from None
    except (ValueError, RecursionError) as exc:
        # A number of thousands of digits, and nesting that is too deep.
        raise ConfigError("unreadable JSON: %s" % exc, "invalid_json") from None


def plugins(config: Config) -> list[Config]:
    """Return the plugins of a configuration or of a list of them."""
    chain = config.get("plugins")
    return list(chain) if isinstance(chain, list) else [config]


def kind_of(plugin: Config) -> str:
    kind = str(plugin["type"])
    return _BINARY_ALIASES.get(kind, kind)


def ipam_of(plugin: Config) -> Config:
    """Return a plugin's ipam, empty if it has none."""
    ipam = plugin.get("ipam")
    return ipam if isinstance(ipam, dict) and ipam.get("type") else {}


def text(config: Config) -> str:
    """Return what is stored: JSON that a person can read by kubectl."""
    return json.dumps(config, indent=2)


def pretty(config: t.Any) -> str:
    """Return what a diff shows: one order of keys."""
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


_NETWORKS = ("range", "subnet", "dst")
_HOSTS = ("gateway", "gw", "range_start", "range_end", "rangeStart", "rangeEnd")


def _network(value: str) -> str:
    # whereabouts and host-local accept addr-CIDR too: START-NETWORK or START-END/LENGTH.
    start, dash, rest = value.rpartition("-")
    if not dash:
        return str(ipaddress.ip_network(value, strict=False))
    # In START-END/LENGTH the host part is the end of the range.
    return "%s-%s" % (ipaddress.ip_address(start), ipaddress.ip_interface(rest))


def _same(key: str, value: t.Any) -> t.Any:
    """Return one spelling of an address; anything else stays as it is, for the lint."""
    if isinstance(value, dict):
        return {inner: _same(inner, item) for inner, item in value.items()}
    if isinstance(value, list):
        return [_same(key, item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        if key in _NETWORKS:
            return _network(value)
        if key == "exclude":
            return str(ipaddress.ip_network(value, strict=False))
        if key in _HOSTS:
            return str(ipaddress.ip_address(value))
        if key == "address":
            return str(ipaddress.ip_interface(value))
    except ValueError:
        pass
    return value


def normal(config: Config, name: str) -> Config:
    """Return a configuration in the one form in which two that mean the same are equal.

    Multus inserts the attachment's name if a configuration has none (GetCNIConfigFromSpec in
    network-attachment-definition-client), so that name is the same as none.
    """
    result = copy.deepcopy(config)
    if result.get("name") in (name, ""):
        del result["name"]
    for plugin in plugins(result):
        if isinstance(plugin.get("ipam"), dict):
            ipam = {key: _same(key, value) for key, value in plugin["ipam"].items()}
            # An order of exclusions means nothing.
            if isinstance(ipam.get("exclude"), list):
                ipam["exclude"] = sorted(ipam["exclude"], key=str)
            if ipam:
                plugin["ipam"] = ipam
            else:
                del plugin["ipam"]
        for key in ("hwaddr", "mac", "pciBusID"):
            if isinstance(plugin.get(key), str):
                plugin[key] = plugin[key].lower()
    return result


def _nearest(key: str, known: t.Iterable[str]) -> str | None:
    lower = {name.lower(): name for name in known}
    flat = {name.replace("_", ""): name for name in lower}
    close = get_close_matches(key.lower(), lower, 1, 0.6) or get_close_matches(
        key.lower().replace("_", ""), flat, 1, 0.6
    )
    return lower[flat.get(close[0], close[0])] if close else None


_TYPES: dict[str, type] = {"str": str, "int": int, "bool": bool, "dict": dict, "list": list}
_WORDS = {"str": "a string", "int": "an integer", "bool": "true or false", "dict": "an object", "list": "a list"}


# Code of the lint, what is wrong, what would be right.
_Fault = t.Tuple[str, str, str]


def _check(where: str, config: Config, known: t.Mapping[str, t.Any], owner: str) -> t.Iterator[_Fault]:
    # Go's JSON reader ignores the case of keys.
    lower = {key.lower(): key for key in known}
    for key, value in config.items():
        at = "%s%s" % (where, key)
        if key.lower() not in lower:
            close = _nearest(key, known)
            hint = "did you mean %s? It" % close if close else "it"
            yield "unknown_key", "%s has no key %s" % (owner, at), "%s accepts %s" % (hint, ", ".join(known))
            continue
        kind = known[lower[key.lower()]]
        if value is None:
            continue
        if isinstance(kind, tuple):
            # An empty text is the plugin's default.
            if value not in (*kind, ""):
                yield "invalid_value", "%s is %s" % (at, json.dumps(value)), "%s accepts %s" % (owner, ", ".join(kind))
        elif not isinstance(value, _TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
            yield "invalid_value", "%s is %s" % (at, json.dumps(value)), "%s requires %s" % (owner, _WORDS[kind])


def _check_rows(where: str, rows: t.Iterable[t.Any], known: t.Mapping[str, t.Any], owner: str) -> t.Iterator[_Fault]:
    for row in rows:
        if isinstance(row, dict):
            yield from _check("%s." % where, row, known, owner)
        else:
            yield "invalid_value", "%s contains %s" % (where, json.dumps(row)), "%s requires objects" % owner


def _check_ipam(where: str, ipam: Config) -> t.Iterator[_Fault]:
    owner = ipam.get("type", "")
    known = IPAM.get(owner)
    if known is None:
        return
    yield from _check(where + ".", ipam, known, owner)
    for key, inner in _INSIDE.items():
        if key in known and isinstance(ipam.get(key), list):
            yield from _check_rows("%s.%s" % (where, key), ipam[key], inner, owner)
    if owner == "host-local" and isinstance(ipam.get("ranges"), list):
        at = where + ".ranges"
        for group in ipam["ranges"]:
            if isinstance(group, list):
                yield from _check_rows(at, group, _HOST_LOCAL_RANGE, owner)
            else:
                contains = "%s contains %s" % (at, json.dumps(group))
                yield "invalid_value", contains, "host-local requires a list of lists of ranges"
    if isinstance(ipam.get("dns"), dict):
        yield from _check(where + ".dns.", ipam["dns"], _DNS, owner)


def check_keys(config: Config) -> t.Iterator[_Fault]:
    """Yield (code, what is wrong, what would be right) for keys and types of values that a plugin does not accept."""
    if "plugins" in config:
        yield from _check("", config, _LIST, "a list of plugins")
    for number, plugin in enumerate(plugins(config)):
        where = "plugins[%d]." % number if "plugins" in config else ""
        known = PLUGINS.get(kind_of(plugin))
        if known is not None:
            yield from _check(where, plugin, {**known, **_COMMON}, plugin["type"])
        yield from _check_ipam(where + "ipam", ipam_of(plugin))


def unknown_types(config: Config) -> list[str]:
    """Return plugin and IPAM types whose keys are not known here, and so not checked."""
    types = [plugin["type"] for plugin in plugins(config) if kind_of(plugin) not in PLUGINS]
    kinds = [ipam_of(plugin).get("type") for plugin in plugins(config)]
    return types + [str(kind) for kind in kinds if kind and kind not in IPAM]


__all__ = (
    "CHAINED",
    "IPAM",
    "LIST_VERSIONS",
    "MAIN",
    "PLUGINS",
    "VERSIONS",
    "Config",
    "ConfigError",
    "build",
    "check_keys",
    "ipam_of",
    "kind_of",
    "normal",
    "option_to_key",
    "parse",
    "plugins",
    "pretty",
    "text",
    "unknown_types",
)
