# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines: started, stopped, cut off, waited for. What they are is remembered beside their disks."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import typing as t

from . import config, image, inventory, ports, qemu
from .progress import LabError, say, step, tail

CONTAINERS = "containers.qcow2"


class Pods(t.NamedTuple):
    """What a node needs beyond the usual to run pods: its size, and a disk with images."""

    size: qemu.Size = qemu.USUAL
    images: pathlib.Path | None = None
    # Nodes that are to have the control plane, and their size.
    planes: tuple[str, ...] = ()
    plane_size: qemu.Size = qemu.USUAL


USUAL = Pods()


class Boot:
    """A boot that has begun, and where its output begins on the node's console."""

    def __init__(self, node: qemu.Node, offset: int, panicked_before: bool = False) -> None:
        self.node = node
        self.offset = offset
        self.panicked_before = panicked_before
        self.began = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def output(self, lines: int) -> str:
        """Return the last lines that it wrote on the console."""
        return tail(self.node.console, lines, self.offset)


class Lab:
    """All that a checkout's lab is: places, settings, remembered nodes."""

    def __init__(self, places: config.Places | None = None, settings: dict[str, t.Any] | None = None) -> None:
        self.places = places or config.places()
        self.settings = settings or config.versions()
        self.file = self.places.state / "lab.json"

    # What is remembered

    def read(self) -> dict[str, t.Any]:
        try:
            return t.cast("dict[str, t.Any]", json.loads(self.file.read_text()))
        except FileNotFoundError:
            return {"nodes": {}, "rail_ports": []}
        except ValueError as error:
            raise LabError(f"{self.file} is not readable ({error}): run 'lab.py down --all' and then 'up'") from error

    def write(self, state: t.Mapping[str, t.Any]) -> None:
        self.places.state.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(state, indent=2) + "\n")
        temporary.replace(self.file)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        return config.lock(self.places.state / "lock", "another command works on this lab", wait=True)

    def names(self) -> list[str]:
        return sorted(self.read()["nodes"], key=config.node_index)

    def node(self, name: str) -> qemu.Node:
        state = self.read()
        if name not in state["nodes"]:
            known = ", ".join(sorted(state["nodes"])) or "none"
            raise LabError(f"the lab has no node {name!r} (it has: {known}); 'lab.py up {name}' makes it")
        place = self.places.node(name)
        return qemu.Node(
            name=name,
            number=config.node_index(name),
            ssh_port=state["nodes"][name]["ssh_port"],
            rail_ports=tuple(state["rail_ports"]),
            overlay=place / "disk.qcow2",
            console=place / "console.log",
            pidfile=place / "pid",
            monitor=self.places.sockets / f"{name}.qmp",
            size=qemu.Size(*state["nodes"][name].get("size", ())),
            containers=place / CONTAINERS if (place / CONTAINERS).exists() else None,
            api_port=state["nodes"][name].get("api_port", 0),
        )

    def image_of(self, name: str) -> image.Image:
        key = self.read()["nodes"][name]["image"]
        base = image.named(self.places, key)
        if base is None:
            raise LabError(f"the image {key} that {name} was made from is gone: 'lab.py fresh {name}' makes it anew")
        return base

    # Making machines

    def connect(self, networks: int = 0) -> None:
        """Connect the rails of machines that are to be started to this many networks; 0: as they are, or each its own."""
        state = self.read()
        rails = self.settings["network"]["rails"]
        if not state["rail_ports"] or networks not in (0, len(set(state["rail_ports"]))):
            ports = [free_port(socket.SOCK_DGRAM) for _ in range(networks or rails)]
            state["rail_ports"] = [ports[rail % len(ports)] for rail in range(rails)]
            self.write(state)

    def define(self, name: str, base: image.Image, pods: Pods = USUAL) -> None:
        """Remember a node and create its disks, unless it has them; other settings stay as they are."""
        self.connect()
        state = self.read()
        entry = state["nodes"].setdefault(name, {"ssh_port": free_port(socket.SOCK_STREAM), "image": base.key})
        if pods.size != qemu.USUAL:
            entry["size"] = pods.size
        if name in pods.planes:
            entry["size"] = pods.plane_size
            # This machine's way to the API server there.
            entry.setdefault("api_port", free_port(socket.SOCK_STREAM))
        disk = self.places.node(name) / "disk.qcow2"
        if not disk.exists():
            entry["image"] = base.key
            entry["fresh"] = True
            make_overlay(disk, base.disk)
            if pods.images:
                make_overlay(disk.with_name(CONTAINERS), pods.images)
        self.write(state)

    def pid(self, name: str) -> int | None:
        """The machine's process, by /proc: the pid file may be a leftover."""
        return self.processes().get(name)

    def processes(self) -> dict[str, int]:
        """Every QEMU process whose disk lies in this lab's state directory."""
        machines = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if not words[0].endswith(b"qemu-system-x86_64"):
                continue
            for word in words:
                if word.startswith(b"if=none,id=disk,file=" + os.fsencode(self.places.state) + b"/"):
                    disk = pathlib.Path(os.fsdecode(word.split(b"file=")[1].split(b",")[0]))
                    machines[disk.parent.name] = int(path.parent.name)
        return machines

    def start(self, name: str) -> int:
        """Start a machine; the answer is where its console's log of this boot begins."""
        if self.pid(name):
            raise LabError(f"{name} is running")
        self.image_of(name)
        state = self.read()
        entry = state["nodes"][name]
        with contextlib.ExitStack() as stack:
            for way in [key for key in ("ssh_port", "api_port") if key in entry]:
                port = ports.number(stack.enter_context(ports.reserve(entry[way])))
                if port != entry[way]:
                    entry[way] = port
                    self.write(state)
                    self.write_inventory()
            node = self.node(name)
            node.monitor.parent.mkdir(parents=True, exist_ok=True)
            node.monitor.parent.chmod(0o700)
            node.monitor.unlink(missing_ok=True)
            node.pidfile.unlink(missing_ok=True)
            offset = node.console.stat().st_size if node.console.exists() else 0
            call(qemu.machine(self.settings, node, config.kvm_usable()), f"starting {name}")
        return offset

    def kill(self, name: str) -> bool:
        """Cut the power."""
        pid = self.pid(name)
        self.close_sessions(name)
        node = self.node(name) if name in self.read()["nodes"] else None
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: self.pid(name) is None, 20, f"the end of {name}'s process {pid}")
        if node:
            node.monitor.unlink(missing_ok=True)
            node.pidfile.unlink(missing_ok=True)
        return pid is not None

    # Waiting for machines

    def wait(self, boots: dict[str, int], limit: float | None = None) -> None:
        """Wait until every one of these boots answers on ssh; after a kernel panic a node is started once more."""
        limit = limit or float(self.settings["limits"]["boot"])
        waiting = {name: Boot(self.node(name), offset) for name, offset in boots.items()}
        shown = time.monotonic()
        while waiting:
            time.sleep(0.5)
            for name in sorted(waiting, key=config.node_index):
                boot = waiting[name]
                if banner(boot.node.ssh_port):
                    say(f"{name} is up after {boot.seconds():.0f} s")
                    del waiting[name]
                elif qemu.panicked(boot.output(400)):
                    waiting[name] = self.start_after_panic(boot)
                else:
                    self.check(boot, limit)
            if waiting and time.monotonic() - shown > 10:
                shown = time.monotonic()
                for name, boot in waiting.items():
                    last = boot.output(1)[:110] or "nothing on its console yet"
                    say(f"waiting for {name} ({boot.seconds():.0f} s): {last}")

    def start_after_panic(self, boot: Boot) -> Boot:
        """Start a node once more; a second panic fails."""
        name, end = boot.node.name, boot.output(25)
        if boot.panicked_before:
            raise LabError(f"{name}: the kernel panicked in two boots running; the console:\n{end}")
        say(f"{name}: KERNEL PANIC after {boot.seconds():.0f} s; starting it once more. The console:\n{end}")
        self.kill(name)
        offset = self.start(name)
        return Boot(self.node(name), offset, panicked_before=True)

    def check(self, boot: Boot, limit: float) -> None:
        """Fail if a boot cannot succeed any more, or takes too long."""
        prompt = qemu.stuck(boot.output(400))
        if prompt:
            reason = f"it stopped at the prompt {prompt!r}"
        elif self.pid(boot.node.name) is None:
            reason = "its process ended"
        elif boot.seconds() > limit:
            reason = f"no answer on ssh after {limit:.0f} s"
        else:
            return
        raise LabError(f"{boot.node.name} did not boot: {reason}; the end of {boot.node.console}:\n{boot.output(40)}")

    # Commands

    def up(self, names: t.Sequence[str], pods: Pods = USUAL) -> None:
        """Run these nodes: create missing ones, start those that are off, leave the others alone."""
        for name in names:
            config.node_index(name)
        if not all((self.places.node(name) / "disk.qcow2").exists() for name in names):
            image.build(self.places, self.settings)
        base = image.current(self.places)
        with self.lock():
            boots = {}
            for name in names:
                if base:
                    self.define(name, base, pods)
                if base is None or self.read()["nodes"][name]["image"] != base.key:
                    say(f"{name} has a disk made from an older image: 'lab.py fresh {name}' makes it anew")
            self.write_inventory()
            for name in names:
                if self.pid(name):
                    say(f"{name} is running")
                    boots[name] = 0
                else:
                    boots[name] = self.start(name)
            way = "KVM" if config.kvm_usable() else "emulation"
            with step(f"booting {', '.join(names)} ({way})"):
                self.wait(boots)
            for name in names:
                self.settle(name)
            self.write_inventory()

    def settle(self, name: str) -> None:
        """Apply what differs between fresh nodes."""
        state = self.read()
        if not state["nodes"][name].get("fresh"):
            return
        kinds = self.settings["guest"]["initramfs"]
        kind = kinds.get(name, kinds["default"])
        self.ssh(name, f"echo MODULES={kind} >/etc/initramfs-tools/conf.d/modules", check=True)
        state["nodes"][name]["fresh"] = False
        self.write(state)

    def down(self, names: t.Sequence[str] | None = None, wipe: bool = False) -> None:
        """End machines; without names all of them, and nothing but the disks is left."""
        with self.lock():
            running = self.processes()
            for name in sorted(names or {*running, *self.safe_names()}):
                if self.kill(name):
                    say(f"{name} is off")
            if names is None:
                shutil.rmtree(self.places.sockets, ignore_errors=True)
                inventory.remove()
                if wipe:
                    for path in self.places.state.glob("gpu-*"):
                        shutil.rmtree(path)
                    self.file.unlink(missing_ok=True)

    def forget_planes(self) -> None:
        """Stop and remove the nodes that were created for a control plane: other scenarios do not use them."""
        with self.lock():
            state = self.read()
            for name in [name for name, entry in state["nodes"].items() if entry.get("api_port")]:
                if self.kill(name):
                    say(f"{name} is off")
                shutil.rmtree(self.places.node(name), ignore_errors=True)
                del state["nodes"][name]
            self.write(state)

    def safe_names(self) -> list[str]:
        try:
            return self.names()
        except LabError:
            return []

    def fresh(self, names: t.Sequence[str], pods: Pods = USUAL) -> None:
        """Create new disks from the newest image, and boot."""
        image.build(self.places, self.settings)
        with self.lock():
            for name in names:
                if name in self.read()["nodes"]:
                    self.kill(name)
                    shutil.rmtree(self.places.node(name), ignore_errors=True)
        self.up(names, pods)

    def power(self, name: str, action: str) -> None:
        with self.lock():
            if action == "on":
                self.wait({name: self.start(name)})
            elif action == "cut":
                if not self.kill(name):
                    say(f"{name} was off")
            elif action == "reset":
                node = self.node(name)
                offset = node.console.stat().st_size
                self.close_sessions(name)
                with qemu.Monitor(node.monitor) as monitor:
                    monitor.execute("system_reset")
                self.wait({name: offset})
            elif action == "off":
                self.ssh(name, "systemctl poweroff", check=False)
                wait_for(lambda: self.pid(name) is None, 120, f"{name} to power off")
                self.kill(name)
            else:
                raise LabError(f"no such power action: {action}")

    def cable(self, name: str, rail: int, up: bool) -> None:
        with qemu.Monitor(self.node(name).monitor) as monitor:
            monitor.execute("set_link", name=f"rail{rail}-card", up=up)

    # ssh

    def ssh_options(self, name: str) -> list[str]:
        return [
            *("-o", f"UserKnownHostsFile={self.places.state / 'known_hosts'}", "-o", "StrictHostKeyChecking=yes"),
            *("-o", "IdentitiesOnly=yes", "-o", "ControlMaster=auto", "-o", "ControlPersist=120"),
            *("-o", f"ControlPath={self.places.sockets}/%C", "-o", "ServerAliveInterval=15"),
            *("-o", "ServerAliveCountMax=4", "-o", "ConnectTimeout=60", "-o", "Compression=no", "-o", "LogLevel=ERROR"),
        ]

    def ssh_argv(self, name: str) -> list[str]:
        node = self.node(name)
        identity = self.image_of(name).identity
        options = ["-F", "none", "-i", str(identity), "-p", str(node.ssh_port)]
        return ["ssh", *options, *self.ssh_options(name), "root@127.0.0.1"]

    def ssh(
        self, name: str, command: str, limit: float | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a node."""
        limit = limit or float(self.settings["limits"]["command"])
        argv = [*self.ssh_argv(name), command]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"{name}: not finished after {limit:.0f} s: {command}") from error
        if check and done.returncode:
            raise LabError(f"{name}: {command!r} ended with {done.returncode}: {done.stdout}{done.stderr}".rstrip())
        return done

    def close_sessions(self, name: str) -> None:
        """A session that is kept open would hang on a machine that is gone."""
        if name not in self.read()["nodes"] or not self.places.sockets.exists():
            return
        if named := image.named(self.places, self.read()["nodes"][name]["image"]):
            argv = [*self.ssh_argv(name), "-O", "exit"] if named.identity else []
            subprocess.run(argv, capture_output=True, timeout=20, check=False)

    def write_inventory(self) -> None:
        state = self.read()
        lines = []
        for name, entry in state["nodes"].items():
            lines.append(f"[127.0.0.1]:{entry['ssh_port']} {self.image_of(name).host_key}\n")
        (self.places.state / "known_hosts").write_text("".join(lines))
        inventory.write(self)


def make_overlay(path: pathlib.Path, base: pathlib.Path) -> None:
    """Create a disk that stores only differences from another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(temporary)]
    call(argv, f"making the disk {path}")
    temporary.replace(path)


def call(argv: t.Sequence[str], doing: str, limit: float = 60) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode:
        raise LabError(f"{doing}: {argv[0]} ended with {done.returncode}: {done.stderr.strip()}")


def wait_for(condition: t.Callable[[], bool], limit: float, event: str) -> None:
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise LabError(f"waited {limit:.0f} s in vain for {event}")
        time.sleep(0.1)


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def banner(port: int) -> bool:
    """Whether a guest's sshd answers: QEMU takes the connection before the guest does."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.settimeout(4)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
