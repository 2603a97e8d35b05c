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

from . import config, containers, image, kubelet, kubernetes_images, mirror, tools, training_image
from .nodes import USUAL, Lab, Pods
from .progress import LabError, say
from .qemu import Size

if t.TYPE_CHECKING:
    from .control_plane import ControlPlane


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab.py", description="Virtual GPU nodes with two rails and soft-RoCE.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text)

    made = add("up", "run nodes; the image and their disks are made when there are none")
    made.add_argument("--nodes", type=int, default=2, metavar="N", help="gpu-1 to gpu-N (default: 2)")
    made.add_argument("names", nargs="*", metavar="NODE")
    made = add("down", "end all nodes, or those named; disks stay")
    made.add_argument("--all", action="store_true", help="remove the disks too, and the control plane")
    made.add_argument("--planes", action="store_true", help="remove the nodes that `fresh --plane` has made, no others")
    made.add_argument("names", nargs="*", metavar="NODE")
    made = add("status", "what runs, and how to reach it")
    made.add_argument("--json", action="store_true")
    made = add("ssh", "a shell or a command on a node")
    made.add_argument("node")
    made.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    made = add("image", "build the image, nothing more")
    made.add_argument("--rebuild", action="store_true", help="also when the cache has it")
    made = add("power", "off: as by a button; cut: as by a pulled plug; on; reset")
    made.add_argument("node")
    made.add_argument("action", choices=("off", "on", "cut", "reset"))
    made = add("cable", "pull or plug the cable of a rail")
    made.add_argument("node")
    made.add_argument("rail", type=int, choices=range(config.versions()["network"]["rails"]))
    made.add_argument("action", choices=("up", "down"))
    made = add("console", "what a node wrote on its serial console")
    made.add_argument("node")
    made = add("fresh", "new disks for all nodes, or those named, and a boot")
    made.add_argument("--pods", action="store_true", help="with the memory that a kubelet and pods need")
    made.add_argument(
        "--image",
        action="append",
        metavar="ARCHIVE",
        type=pathlib.Path,
        help="and with this image in containerd; any number",
    )
    made.add_argument(
        "--plane",
        action="append",
        default=[],
        metavar="NODE",
        help="with what a control-plane node of kubeadm needs, and a way to its API server; any number",
    )
    made.add_argument("names", nargs="*", metavar="NODE")
    made = add("cluster", "a Kubernetes control plane on this machine")
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("up", help="run it; programs that are not here are fetched or built")
    made = actions.add_parser("down", help="end it; its data stays")
    made.add_argument("--all", action="store_true", help="remove its data and its keys too")
    made = actions.add_parser("status", help="what runs, and how it is")
    made.add_argument("--json", action="store_true")
    made = actions.add_parser("kubeconfig", help="the path of the administrator's kubeconfig")
    made.add_argument("--nodes", action="store_true", help="the one that has the address which nodes use")
    made = actions.add_parser("join", help="make nodes that run nodes of the cluster: containerd and kubelet")
    made.add_argument("names", nargs="*", metavar="NODE", help="default: all that the lab has")
    made = actions.add_parser("forward", help="let this machine reach kubelets and exporters of nodes that run")
    made.add_argument("names", nargs="+", metavar="NODE")
    made = add("tool", "the paths of programs of the cluster; fetched or built when they are not here")
    made.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: what the tests of the cluster side need")
    made = add("mirror", "the path of a directory with what nodes download, made of the lab's own programs")
    made.add_argument("--kubernetes", action="store_true", help="with kubeadm, kubelet and kubectl")
    add(
        "kubernetes-images", "the archive of the images of kubeadm's control plane, and the tags of etcd, DNS and pause"
    )
    add("training-image", "the archive of the image that pods train with, and the image by its digest")
    add("host-packages", "the Debian packages this machine needs")
    add("doctor", "what this machine lacks")
    return top


def status(lab: Lab) -> list[dict[str, t.Any]]:
    rows = []
    for name in lab.names():
        node = lab.node(name)
        pid = lab.pid(name)
        rows.append({"node": name, "pid": pid, "ssh": shlex.join(lab.ssh_argv(name)), "console": str(node.console)})
    return rows


def doctor(lab: Lab) -> int:
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


def cluster_of(lab: Lab) -> ControlPlane:
    # Not every command needs the library for certificates.
    from .control_plane import ControlPlane

    return ControlPlane(lab.places, lab.settings)


def cluster(plane: ControlPlane, arguments: argparse.Namespace) -> None:
    action = arguments.action
    if action == "up":
        plane.up()
        plane.for_tests.unlink(missing_ok=True)
        print(plane.kubeconfig)
    elif action == "down":
        plane.down(wipe=arguments.all)
    elif action == "kubeconfig":
        plane.need_ports()
        print(plane.kubeconfig_of_nodes if arguments.nodes else plane.kubeconfig)
    elif action == "status":
        rows = plane.status()
        if arguments.json:
            print(json.dumps([row._asdict() for row in rows], indent=2))
        for row in [] if arguments.json else rows:
            state = "healthy" if row.healthy else "NOT HEALTHY" if row.pid else "off"
            about = f", pid {row.pid}, port {row.port}, {row.memory_mib} MiB" if row.pid else ""
            print(f"{row.program}: {state}{about}\n  {row.log}")


def run(arguments: argparse.Namespace) -> int:
    lab = Lab()
    command = arguments.command
    if command == "up":
        lab.up(arguments.names or [config.node_name(n) for n in range(1, arguments.nodes + 1)])
    elif command == "down" and arguments.planes:
        lab.forget_planes()
    elif command == "down":
        known = arguments.names or lab.safe_names()
        lab.down(arguments.names or None, wipe=arguments.all)
        kubelet.leave(lab.settings, known)
        if arguments.all and not arguments.names:
            cluster_of(lab).wipe()
    elif command == "status":
        rows = status(lab)
        if arguments.json:
            print(json.dumps(rows, indent=2))
        for row in [] if arguments.json else rows:
            print(f"{row['node']}: {'running, pid ' + str(row['pid']) if row['pid'] else 'off'}\n  {row['ssh']}")
    elif command == "ssh":
        argv = lab.ssh_argv(arguments.node)
        os.execvp(argv[0], [*argv, *arguments.words])
    elif command == "image":
        built = image.build(lab.places, lab.settings, rebuild=arguments.rebuild)
        print(built.path)
    elif command == "power":
        lab.power(arguments.node, arguments.action)
    elif command == "cable":
        lab.cable(arguments.node, arguments.rail, arguments.action == "up")
    elif command == "console":
        sys.stdout.write(lab.node(arguments.node).console.read_text(errors="replace").replace("\r", ""))
    elif command == "fresh":
        disk = containers.disk(lab.places, arguments.image) if arguments.image else None
        sizes = {what: Size(**size) for what, size in lab.settings["cluster"]["size"].items()}
        pods = USUAL
        if arguments.pods or disk or arguments.plane:
            pods = Pods(sizes["pods"], disk, tuple(arguments.plane), sizes["plane"])
        names = arguments.names or lab.names() or ["gpu-1", "gpu-2"]
        lab.fresh([*names, *(name for name in arguments.plane if name not in names)], pods)
    elif command == "cluster":
        if arguments.action == "join":
            kubelet.join(lab, cluster_of(lab), arguments.names or lab.names())
        elif arguments.action == "forward":
            for name in arguments.names:
                kubelet.forward(lab, name)
        else:
            cluster(cluster_of(lab), arguments)
    elif command == "tool":
        for program in arguments.programs or lab.settings["cluster"]["programs"]:
            print(tools.get(program, lab.places, lab.settings))
    elif command == "mirror":
        print(mirror.make(lab.places, lab.settings, arguments.kubernetes))
    elif command == "kubernetes-images":
        print(kubernetes_images.archive(lab.places, lab.settings))
        tags = (kubernetes_images.etcd_tag(lab.settings), kubernetes_images.dns_tag(lab.settings))
        print("\n".join([*tags, kubernetes_images.names(lab.settings)["pause"]]))
    elif command == "training-image":
        found = training_image.image(lab.places, lab.settings)
        print(f"{found.archive}\n{found.reference}")
    elif command == "host-packages":
        print("\n".join(config.host_packages(lab.settings)))
    elif command == "doctor":
        return doctor(lab)
    return 0


def main(argv: t.Sequence[str] | None = None) -> int:
    try:
        return run(parser().parse_args(argv))
    except LabError as error:
        say(f"failed: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"failed: {shlex.join(error.cmd)} ended with {error.returncode}: {error.stderr or ''}")
        return 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
