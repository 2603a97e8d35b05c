# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's commands."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import typing as t

from . import (
    config,
    containers,
    driver_image,
    image,
    kubelet,
    kubernetes_images,
    mirror,
    operators,
    tools,
    training_image,
)
from .nodes import USUAL, Lab, Pods
from .progress import LabError, say
from .qemu import Size

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane


Handler = t.Callable[[Lab, argparse.Namespace], int | None]


class Commands:
    """The commands of a parser, each with the function that carries it out."""

    def __init__(self, parser: argparse.ArgumentParser, metavar: str) -> None:
        self._commands = parser.add_subparsers(required=True, metavar=metavar)

    def add(self, name: str, handler: Handler | None, text: str) -> argparse.ArgumentParser:
        """Add a command; without a handler it has commands of its own."""
        command = self._commands.add_parser(name, help=text, description=text)
        command.set_defaults(handler=handler)
        return command


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab.py", description="Virtual GPU nodes with two rails and soft-RoCE.")
    commands = Commands(top, "COMMAND")
    add_nodes(commands)
    add_one_node(commands)
    add_cluster(commands)
    add_downloads(commands)
    commands.add("host-packages", print_host_packages, "the Debian packages this machine needs")
    commands.add("doctor", doctor, "what this machine lacks")
    return top


# All nodes


def add_nodes(commands: Commands) -> None:
    up = commands.add("up", start_nodes, "run nodes; the image and their disks are created if missing")
    up.add_argument("--nodes", type=int, default=2, metavar="N", help="gpu-1 to gpu-N (default: 2)")
    up.add_argument("names", nargs="*", metavar="NODE")
    down = commands.add("down", stop_nodes, "end all nodes, or those named; disks stay")
    down.add_argument("--all", action="store_true", help="remove the disks too, and the control plane")
    down.add_argument("--planes", action="store_true", help="remove only the nodes that `fresh --plane` created")
    down.add_argument("names", nargs="*", metavar="NODE")
    commands.add("status", print_nodes, "what runs, and how to reach it").add_argument("--json", action="store_true")
    fresh = commands.add("fresh", renew_nodes, "new disks for all nodes, or those named, and a boot")
    fresh.add_argument("--pods", action="store_true", help="with the memory that a kubelet and pods need")
    fresh.add_argument("--memory", type=int, metavar="MIB", help="and with this much of it")
    fresh.add_argument(
        "--image",
        action="append",
        metavar="ARCHIVE",
        type=pathlib.Path,
        help="and with this image in containerd; any number",
    )
    fresh.add_argument(
        "--plane",
        action="append",
        default=[],
        metavar="NODE",
        help="with what a control-plane node of kubeadm needs, and a way to its API server; any number",
    )
    fresh.add_argument("--one-network", action="store_true", help="with both rails in one network")
    fresh.add_argument("names", nargs="*", metavar="NODE")


def start_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    lab.up(arguments.names or [config.node_name(n) for n in range(1, arguments.nodes + 1)])


def stop_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    if arguments.planes:
        lab.forget_planes()
        return
    known = arguments.names or lab.safe_names()
    lab.down(arguments.names or None, wipe=arguments.all)
    kubelet.leave(lab.settings, known)
    if arguments.all and not arguments.names:
        control_plane(lab).wipe()


def status(lab: Lab) -> list[dict[str, t.Any]]:
    rows = []
    for name in lab.names():
        node = lab.node(name)
        pid = lab.pid(name)
        rows.append({"node": name, "pid": pid, "ssh": shlex.join(lab.ssh_argv(name)), "console": str(node.console)})
    return rows


def print_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    rows = status(lab)
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['node']}: {'running, pid ' + str(row['pid']) if row['pid'] else 'off'}\n  {row['ssh']}")


def renew_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    disk = containers.disk(lab.places, arguments.image) if arguments.image else None
    sizes = {kind: Size(**size) for kind, size in lab.settings["cluster"]["size"].items()}
    pods = USUAL
    if arguments.pods or disk or arguments.plane:
        size = sizes["pods"]._replace(**({"memory_mib": arguments.memory} if arguments.memory else {}))
        pods = Pods(size, disk, tuple(arguments.plane), sizes["plane"])
    lab.connect(1 if arguments.one_network else lab.settings["network"]["rails"])
    names = arguments.names or lab.names() or ["gpu-1", "gpu-2"]
    lab.fresh([*names, *(name for name in arguments.plane if name not in names)], pods)


# One node


def add_one_node(commands: Commands) -> None:
    ssh = commands.add("ssh", open_session, "a shell or a command on a node")
    ssh.add_argument("node")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    power = commands.add("power", switch_power, "off: as by a button; cut: as by a pulled plug; on; reset")
    power.add_argument("node")
    power.add_argument("action", choices=("off", "on", "cut", "reset"))
    cable = commands.add("cable", set_cable, "pull or plug the cable of a rail")
    cable.add_argument("node")
    cable.add_argument("rail", type=int, choices=range(config.versions()["network"]["rails"]))
    cable.add_argument("action", choices=("up", "down"))
    commands.add("console", print_console, "what a node wrote on its serial console").add_argument("node")


def open_session(lab: Lab, arguments: argparse.Namespace) -> None:
    argv = lab.ssh_argv(arguments.node)
    os.execvp(argv[0], [*argv, *arguments.words])


def switch_power(lab: Lab, arguments: argparse.Namespace) -> None:
    lab.power(arguments.node, arguments.action)


def set_cable(lab: Lab, arguments: argparse.Namespace) -> None:
    lab.cable(arguments.node, arguments.rail, arguments.action == "up")


def print_console(lab: Lab, arguments: argparse.Namespace) -> None:
    sys.stdout.write(lab.node(arguments.node).console.read_text(errors="replace").replace("\r", ""))


# The control plane


def add_cluster(commands: Commands) -> None:
    text = "a Kubernetes control plane on this machine"
    actions = Commands(commands.add("cluster", None, text), "ACTION")
    actions.add("up", start_plane, "run it; programs that are not here are fetched or built")
    down = actions.add("down", stop_plane, "end it; its data stays")
    down.add_argument("--all", action="store_true", help="remove its data and its keys too")
    actions.add("status", print_plane, "what runs, and how it is").add_argument("--json", action="store_true")
    kubeconfig = actions.add("kubeconfig", print_kubeconfig, "the path of the administrator's kubeconfig")
    kubeconfig.add_argument("--nodes", action="store_true", help="the one with the address that nodes use")
    join = actions.add("join", join_nodes, "make nodes that run nodes of the cluster: containerd and kubelet")
    join.add_argument("names", nargs="*", metavar="NODE", help="default: all that the lab has")
    operator = actions.add("operator", start_operator, "run an operator of training jobs on this machine")
    operator.add_argument("program", choices=[*operators.OPERATORS])
    text = "let this machine reach kubelets and exporters of nodes that run"
    actions.add("forward", forward_nodes, text).add_argument("names", nargs="+", metavar="NODE")


def control_plane(lab: Lab) -> ControlPlane:
    # Not every command needs the library for certificates.
    from .control_plane import ControlPlane

    return ControlPlane(lab.places, lab.settings)


def start_plane(lab: Lab, _arguments: argparse.Namespace) -> None:
    plane = control_plane(lab)
    plane.up()
    plane.for_tests.unlink(missing_ok=True)
    print(plane.kubeconfig)


def start_operator(lab: Lab, arguments: argparse.Namespace) -> None:
    operators.up(control_plane(lab), arguments.program)


def stop_plane(lab: Lab, arguments: argparse.Namespace) -> None:
    control_plane(lab).down(wipe=arguments.all)


def print_plane(lab: Lab, arguments: argparse.Namespace) -> None:
    rows = control_plane(lab).status()
    if arguments.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    for row in rows:
        state = "healthy" if row.healthy else "NOT HEALTHY" if row.pid else "off"
        about = f", pid {row.pid}, port {row.port}, {row.memory_mib} MiB" if row.pid else ""
        print(f"{row.program}: {state}{about}\n  {row.log}")


def print_kubeconfig(lab: Lab, arguments: argparse.Namespace) -> None:
    plane = control_plane(lab)
    plane.need_ports()
    print(plane.kubeconfig_of_nodes if arguments.nodes else plane.kubeconfig)


def join_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    kubelet.join(lab, control_plane(lab), arguments.names or lab.names())


def forward_nodes(lab: Lab, arguments: argparse.Namespace) -> None:
    for name in arguments.names:
        kubelet.forward(lab, name)


# What is downloaded or built


def add_downloads(commands: Commands) -> None:
    disk = commands.add("image", build_image, "build the image, nothing more")
    disk.add_argument("--rebuild", action="store_true", help="also when the cache has it")
    text = "the paths of programs of the cluster; fetched or built when they are not here"
    tool = commands.add("tool", print_programs, text)
    tool.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: what the tests of the cluster side need")
    text = "the path of a directory with what nodes download, built from the lab's own programs"
    downloads = commands.add("mirror", print_mirror, text)
    downloads.add_argument("--kubernetes", action="store_true", help="with kubeadm, kubelet and kubectl")
    text = "the archive of the images of kubeadm's control plane, and the tags of etcd, DNS and pause"
    commands.add("kubernetes-images", print_kubernetes_images, text)
    text = "the archive of the image that pods train with, and the image by its digest"
    commands.add("training-image", print_training_image, text)
    text = "the archive of a program that gives devices to pods, and the image by its digest"
    parser = commands.add("driver-image", print_driver_image, text)
    parser.add_argument("tool", choices=driver_image.PROGRAMS)


def build_image(lab: Lab, arguments: argparse.Namespace) -> None:
    print(image.build(lab.places, lab.settings, rebuild=arguments.rebuild).path)


def print_programs(lab: Lab, arguments: argparse.Namespace) -> None:
    for program in arguments.programs or lab.settings["cluster"]["programs"]:
        print(tools.get(program, lab.places, lab.settings))


def print_mirror(lab: Lab, arguments: argparse.Namespace) -> None:
    print(mirror.make(lab.places, lab.settings, arguments.kubernetes))


def print_kubernetes_images(lab: Lab, _arguments: argparse.Namespace) -> None:
    print(kubernetes_images.archive(lab.places, lab.settings))
    tags = (kubernetes_images.etcd_tag(lab.settings), kubernetes_images.dns_tag(lab.settings))
    print("\n".join([*tags, kubernetes_images.names(lab.settings)["pause"]]))


def print_training_image(lab: Lab, _arguments: argparse.Namespace) -> None:
    archive = training_image.image(lab.places, lab.settings)
    print(f"{archive.archive}\n{archive.reference}")


def print_driver_image(lab: Lab, arguments: argparse.Namespace) -> None:
    print("\n".join(map(str, driver_image.image(arguments.tool, lab.places, lab.settings))))


# This machine


def print_host_packages(lab: Lab, _arguments: argparse.Namespace) -> None:
    print("\n".join(config.host_packages(lab.settings)))


def doctor(lab: Lab, _arguments: argparse.Namespace) -> int:
    missing = config.missing_commands(lab.settings)
    if missing:
        print(f"missing: {', '.join(sorted(missing))}; install them by")
        print(f"  apt-get install --no-install-recommends {' '.join(sorted(set(missing.values())))}")
    if not config.kvm_usable():
        print("no KVM (the CPU shows neither vmx nor svm, or /dev/kvm is not accessible): nodes are emulated, slowly")
    if image.current(lab.places) is None and os.geteuid() != 0:
        sudo = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
        if sudo.returncode:
            print("the image is not built yet; building it needs root, or a sudo that asks no password")
            return 1
    return 1 if missing else 0


def main(argv: t.Sequence[str] | None = None) -> int:
    try:
        arguments = parser().parse_args(argv)
        return arguments.handler(Lab(), arguments) or 0
    except LabError as error:
        say(f"failed: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"failed: {shlex.join(error.cmd)} ended with {error.returncode}: {error.stderr or ''}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
