# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU: its arguments, its monitor, what a guest's console shows."""

from __future__ import annotations

import json
import pathlib
import re
import socket
import typing as t

from . import config
from .progress import LabError

# Fixed slots on the PCI bus give the cards the same predictable names in every guest.
DISK_SLOT, OUTSIDE_SLOT, FIRST_RAIL_SLOT, CONTAINERS_SLOT = 2, 3, 4, 16
PANIC = re.compile(r"Kernel panic - not syncing")
STUCK = re.compile(r"^(grub rescue>|grub>|\(initramfs\)|BusyBox v)|Give root password for maintenance", re.MULTILINE)


class Size(t.NamedTuple):
    """What a machine has; 0: as all do."""

    memory_mib: int = 0
    cpus: int = 0
    # Emulation only: the cache of translated code. If it is full, QEMU discards all of it.
    tb_size_mib: int = 0


USUAL = Size()


class Node(t.NamedTuple):
    """What a machine is started from."""

    name: str
    number: int
    ssh_port: int
    rail_ports: tuple[int, ...]
    overlay: pathlib.Path
    console: pathlib.Path
    pidfile: pathlib.Path
    monitor: pathlib.Path
    size: Size = USUAL
    # A second disk, with containerd's directory.
    containers: pathlib.Path | None = None
    # The port here that leads to the node's API server; 0: there is none.
    api_port: int = 0


def panicked(console: str) -> bool:
    return PANIC.search(console) is not None


def stuck(console: str) -> str | None:
    """The prompt at which a guest waits for a person who is not there."""
    match = STUCK.search(console.replace("\r", ""))
    return match[0] if match else None


def common(settings: t.Mapping[str, t.Any], kvm: bool, size: Size = USUAL) -> list[str]:
    guest = settings["guest"]
    accelerator = "kvm" if kvm else f"tcg,thread=multi,tb-size={size.tb_size_mib or guest['tb_size_mib']}"
    return [
        *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-vga", "none"),
        # What the guest has no driver for costs it no time to probe.
        *("-machine", "q35,sata=off,smbus=off,i8042=off,vmport=off,hpet=off,usb=off,graphics=off"),
        # Emulated page tables of five levels only make every walk longer.
        *("-accel", accelerator, "-cpu", "host" if kvm else "max,la57=off"),
        *("-smp", str(size.cpus or guest["cpus"]), "-m", str(size.memory_mib or guest["memory_mib"])),
    ]


def disk(path: pathlib.Path, form: str) -> list[str]:
    # cache=unsafe still hands over what the guest flushed to this machine's kernel, which outlives a
    # killed QEMU (block/io.c, bdrv_co_flush: bdrv_co_flush_to_os comes before BDRV_O_NO_FLUSH).
    return [
        *("-drive", f"if=none,id=disk,file={path},format={form},cache=unsafe,discard=unmap"),
        *("-device", f"virtio-blk-pci,drive=disk,bootindex=1,addr={DISK_SLOT}"),
    ]


def console(path: pathlib.Path) -> list[str]:
    return ["-chardev", f"file,id=console,path={path},append=on", "-serial", "chardev:console"]


def first_boot(
    settings: t.Mapping[str, t.Any], path: pathlib.Path, log: pathlib.Path, kernel: pathlib.Path, initrd: pathlib.Path
) -> list[str]:
    words = [*settings["guest"]["cmdline"], "root=LABEL=lab-root", "rw", "init=/usr/local/sbin/lab-first-boot"]
    return [
        *common(settings, config.kvm_usable()),
        *disk(path, "raw"),
        *console(log),
        *("-nic", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd), "-append", " ".join(words)),
    ]


def machine(settings: t.Mapping[str, t.Any], node: Node, kvm: bool) -> list[str]:
    """The command that starts a node in the background."""
    prefix = settings["network"]["mac_prefix"]
    ways = [(node.ssh_port, 22), *([(node.api_port, settings["cluster"]["plane_port"])] if node.api_port else [])]
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in ways)
    argv = [
        *common(settings, kvm, node.size),
        *("-name", f"{node.name},process=lab-{node.name}"),
        *disk(node.overlay, "qcow2"),
        *console(node.console),
        *("-netdev", f"user,id=outside{forwards}"),
        *("-device", card("outside", config.mac(prefix, config.OUTSIDE_RAIL, node.number), OUTSIDE_SLOT)),
    ]
    if node.containers:
        argv += ["-drive", f"if=none,id=containers,file={node.containers},format=qcow2,cache=unsafe,discard=unmap"]
        argv += ["-device", f"virtio-blk-pci,drive=containers,addr={CONTAINERS_SLOT}"]
    for rail, port in enumerate(node.rail_ports):
        # Multicast on the loopback: no node is the listener that the others would lose.
        argv += ["-netdev", f"socket,id=rail{rail},mcast=230.0.0.1:{port},localaddr=127.0.0.1"]
        argv += ["-device", card(f"rail{rail}", config.mac(prefix, rail, node.number), FIRST_RAIL_SLOT + rail)]
    return [
        *argv,
        *("-qmp", f"unix:{node.monitor},server=on,wait=off"),
        *("-pidfile", str(node.pidfile), "-daemonize"),
    ]


def card(name: str, mac: str, slot: int) -> str:
    # Without a ROM the firmware does not try to boot from the network.
    return f"virtio-net-pci,id={name}-card,netdev={name},mac={mac},addr={slot},romfile="


class Monitor:
    """A QMP session: https://www.qemu.org/docs/master/interop/qmp-spec.html"""

    def __init__(self, path: pathlib.Path, limit: float = 20) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(limit)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            self.socket.close()
            raise LabError(f"no answer from the machine's monitor {path}: {error}") from error
        self.file = self.socket.makefile("rw", encoding="utf-8")
        self.read()
        self.execute("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def read(self) -> dict[str, t.Any]:
        try:
            line = self.file.readline()
        except OSError as error:
            raise LabError(f"the machine's monitor {self.path} stopped answering: {error}") from error
        if not line:
            raise LabError(f"the machine's monitor {self.path} closed the connection")
        return t.cast("dict[str, t.Any]", json.loads(line))

    def execute(self, command: str, **arguments: t.Any) -> t.Any:
        self.file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.file.flush()
        while True:
            answer = self.read()
            if "error" in answer:
                raise LabError(f"QEMU refused {command} {arguments}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
