# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose kernel answers as drivers do, to be recorded as rdma_info records a host.

Trees of sysfs are made after drivers/net/ethernet and drivers/infiniband of Linux 6.12.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import typing as t
from pathlib import Path
from unittest import mock

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import dump
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import Sources
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace, Survey, Unreadable
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import addresses, nldev, recording
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_devices import info
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode import model
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

Json = t.Any

HOST_NETNS = 4026531840


def gid_of(address: str) -> str:
    """Return the GID of an IP address, as sysfs prints it."""
    parsed = ipaddress.ip_address(address)
    mapped = ipaddress.IPv6Address(f"::ffff:{address}") if parsed.version == 4 else parsed
    return mapped.packed.hex(":", 2)


def guid_of(mac: str, middle: str = "0300") -> str:
    """Return the GUID that firmware of mlx5 makes of an Ethernet address."""
    octets = mac.replace(":", "")
    digits = octets[:6] + middle + octets[6:]
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


class Machine:
    """One network namespace of a machine: its sysfs below ``sys``, and what netlink answers."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys
        self.devices: list[nldev.Device] = []
        self.ports: dict[int, list[nldev.Port]] = {}
        self.index = itertools.count(2)
        for directory in ("class/net", "class/infiniband"):
            (sys / directory).mkdir(parents=True, exist_ok=True)

    def link(self, path: str, target: str) -> None:
        (self.sys / target).mkdir(parents=True, exist_ok=True)
        (self.sys / path).parent.mkdir(parents=True, exist_ok=True)
        (self.sys / path).symlink_to(self.sys / target)

    def driver(self, place: str, driver: str, module: str, bus: str = "pci") -> None:
        """Bind a device to the driver of a module."""
        self.link(f"{place}/driver", f"bus/{bus}/drivers/{driver}")
        if not (self.sys / f"bus/{bus}/drivers/{driver}/module").exists():
            self.link(f"bus/{bus}/drivers/{driver}/module", f"module/{module}")

    def card(self, address: str, driver: str, rdma: tuple[str, str] | None = None, numa: int = 0) -> str:
        """Add a PCI function; ``rdma`` is its auxiliary device for RDMA and the module of that."""
        place = f"devices/pci{address[:7]}/{address[:7]}:01.0/{address}"
        write_tree(self.sys / place, {"numa_node": f"{numa}\n"})
        self.driver(place, driver, driver)
        if rdma:
            self.driver(f"{place}/{rdma[0]}", f"{rdma[1]}.rdma", rdma[1], "auxiliary")
        return place

    def netdev(self, name: str, parent: str | None, mac: str, **files: object) -> None:
        """Add a network device; an empty ``parent`` is none."""
        number = next(self.index)
        texts = {"ifindex": number, "iflink": number, "type": 1, "dev_port": 0, "mtu": 9000, "address": mac, **files}
        write_tree(self.sys / "class/net" / name, {file: f"{text}\n" for file, text in texts.items()})
        if parent:
            self.link(f"class/net/{name}/device", parent)

    def device(
        self,
        name: str,
        parent: str | None,
        guid: str,
        protocol: str = "roce",
        firmware: str | None = None,
        board: str | None = None,
        image: str | None = None,
        index: int | None = None,
    ) -> None:
        number = len(self.devices) if index is None else index
        row = nldev.Device(
            number, name, 0, "rnic" if protocol == "iw" else "ca", protocol, guid, image or guid, firmware, None
        )
        self.devices.append(row)
        self.ports[number] = []
        base = self.sys / "class/infiniband" / name
        write_tree(base, {"node_type": "1: CA\n", **({"board_id": f"{board}\n"} if board else {"parent": "eth\n"})})
        if parent:
            self.link(f"class/infiniband/{name}/device", parent)

    def port(
        self,
        name: str,
        netdev: str | None,
        gids: t.Sequence[tuple[str, str, str | None]],
        rate: str = "400 Gb/sec (4X NDR)",
        layer: str = "Ethernet",
        state: str = "ACTIVE",
        pkeys: t.Sequence[str] = ("0xffff",),
        lids: tuple[int | None, int | None, int | None] = (None, None, None),
    ) -> None:
        """Add the next port of a device; GIDs are (GID, type, network device)."""
        at = [row.name for row in self.devices].index(name)
        row = self.devices[at]
        number = row.ports + 1
        self.devices[at] = row._replace(ports=number)
        physical = "LINK_UP" if state == "ACTIVE" else "DISABLED"
        self.ports[row.index].append(
            nldev.Port(
                row.index, name, number, state, physical, netdev, 2 if netdev else None, *lids, "fe80:0000:0000:0000"
            )
        )
        files = {"rate": rate, "link_layer": layer, **{f"pkeys/{at}": key for at, key in enumerate(pkeys)}}
        for index, (gid, kind, owner) in enumerate(gids):
            files.update({f"gids/{index}": gid, f"gid_attrs/types/{index}": kind})
            if owner:
                files[f"gid_attrs/ndevs/{index}"] = owner
        files[f"gids/{len(gids)}"] = ":".join(["0000"] * 8)
        base = self.sys / "class/infiniband" / name / f"ports/{number}"
        write_tree(base, {file: f"{text}\n" for file, text in files.items()})

    def roce(self, name: str, netdev: str, mac: str, *ips: str, **more: t.Any) -> None:
        """Add a port with the GIDs that ib_core makes of the addresses of a network device, v1 and v2 of each."""
        local = ipaddress.IPv6Address(addresses.default_gid(mac) or "::").exploded
        rows = [(gid, kind, netdev) for gid in (local, *map(gid_of, ips)) for kind in ("IB/RoCE v1", "RoCE v2")]
        self.port(name, netdev, rows, **more)

    def refuse(self, path: str) -> None:
        """Let reading a file fail, with EISDIR."""
        (self.sys / path).unlink(missing_ok=True)
        (self.sys / path).mkdir(parents=True)

    @contextlib.contextmanager
    def kernel(self) -> t.Iterator[None]:
        with mock.patch.multiple(nldev, devices=lambda: list(self.devices), ports=lambda index: self.ports[index]):
            yield

    def record(self) -> Json:
        with self.kernel():
            return recording.record(str(self.sys))


class _Rdma(info.Host):
    def __init__(self, host: Recorded) -> None:
        self.host = host

    def system(self) -> tuple[bool, str | None]:
        return True, self.host.live

    def own(self) -> int:
        return HOST_NETNS

    def initial(self) -> int | None:
        return HOST_NETNS

    def netns_capable_drivers(self) -> set[str] | None:
        return self.host.able

    def pods(self) -> dict[str, tuple[str, str]]:
        return self.host.pods

    def claims(self) -> dict[str, list[str]]:
        return {}


class _Mode(model.Host):
    def __init__(self, host: Recorded, root: Path) -> None:
        super().__init__(str(root))
        self.host = host

    def is_root(self) -> bool:
        return self.host.root

    def live(self) -> str | None:
        return self.host.live

    def available(self) -> bool:
        return True

    def sources(self) -> Sources:
        return self.host.sources

    def other_namespaces(self) -> Survey:
        return Survey([space for space, _answer in self.host.spaces], self.host.unreadable)


class Recorded(dump.Host):
    """A machine with all that is recorded of it beside the RDMA subsystem."""

    def __init__(
        self,
        machine: Machine,
        root: Path,
        sources: Sources,
        *,
        live: str = "shared",
        files: t.Mapping[str, str] | None = None,
        spaces: t.Sequence[tuple[Namespace, Machine | OSError]] = (),
        pods: dict[str, tuple[str, str]] | None = None,
        able: set[str] | None = None,
        interfaces: t.Sequence[Json] = (),
        system: Json = None,
        names: t.Sequence[str] = ("gpu-01.example.com", "gpu-01"),
    ) -> None:
        self.machine, self.sources, self.live, self.spaces = machine, sources, live, list(spaces)
        self.pods, self.able, self.interfaces = pods or {}, able or set(), list(interfaces)
        self.kernel_release = system or {"kernel": "6.12.1", "machine": "x86_64", "id": "debian", "version_id": "13"}
        self.machine_names, self.root = list(names), True
        self.unreadable: list[Unreadable] = []
        self.plugins = ["host-device", "rdma", "whereabouts"]
        write_tree(root, files or {})
        self.rdma, self.mode = _Rdma(self), _Mode(self, root)

    def record(self) -> Json:
        return self.machine.record()

    def record_inside(self, spaces: t.Sequence[Namespace]) -> dict[int, Json]:
        return {
            space.inode: {"errno": answer.errno, "error": str(answer)}
            if isinstance(answer, OSError)
            else {"value": answer.record()}
            for space, answer in self.spaces
        }

    def network_info(self) -> Json:
        cni = {
            "bin_dir": "/opt/cni/bin",
            "plugins": self.plugins,
            "conf_dir": "/etc/cni/net.d",
            "configs": ["00-acme.conf"],
        }
        return {"interfaces": self.interfaces, "cni": cni}

    def names(self) -> list[str]:
        return self.machine_names

    def system(self) -> Json:
        return self.kernel_release


def interface(name: str, mac: str, pci: str | None = None, *networks: str, **more: Json) -> Json:
    """Return a network device as network_info does."""
    row = {
        "name": name, "mac": mac, "mtu": 9000, "state": "UP", "kind": None, "pci_address": pci, "numa_node": None,
        "master": None, "link": None, "addresses": list(networks), "uses": [], "rdma": [],
    }  # fmt: skip
    return {**row, **more}


__all__ = ["HOST_NETNS", "Machine", "Recorded", "gid_of", "guid_of", "interface"]
