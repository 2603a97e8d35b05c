# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are network namespaces of one machine, with soft-RoCE on each rail. It runs on that machine, as root.

spaces.py create NODES RAILS
spaces.py run PLAN       rounds of the tests of fabric_probe, as packed JSON; prints the results
spaces.py remove
"""

from __future__ import annotations

import base64
import concurrent.futures
import json
import os
import subprocess
import sys
import typing as t
import zlib

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric import measure
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host, Server
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._tool_output.listeners import listeners_in

PLACE = "/run/spaces"
# Seconds: how long a test may take, a server may take to listen, and goes on listening.
LIMIT, PATIENCE, LIFETIME = 40.0, 60.0, 600.0
# What a port sends at most
RATE = "tbf rate 4mbit burst 16kb limit 200kb"

Json = t.Any


class Space(Host):
    """Programs that run in the network namespace of a node, with its part of sysfs."""

    def __init__(self, name: str) -> None:
        with open(f"{PLACE}/{name}.pid", encoding="ascii") as stream:
            self._pid = stream.read().strip()
        self.netns = f"/proc/{self._pid}/ns/net"
        self._enter = ["nsenter", "--target", self._pid, "--net", "--mount"]

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        return super().run([*self._enter, *argv], limit)

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> Server:
        return super().start([*self._enter, *argv], limit, log)

    def listens(self, port: int) -> bool:
        return any(port in listeners_in(table) for table in self.texts([f"/proc/{self._pid}/net/tcp"]))


def batch(lines: t.Iterable[str], space: str = "") -> None:
    argv = ["ip", *(["-netns", space] if space else []), "-batch", "-"]
    subprocess.run(argv, input="\n".join(lines), text=True, check=True, timeout=300)


def create(nodes: int, rails: int) -> None:
    os.makedirs(PLACE)
    batch(f"link add rails{rail} up type bridge" for rail in range(rails))
    for place in range(nodes):
        name = f"n{place:02}"
        batch([f"netns add {name}"])
        for rail in range(rails):
            batch(
                (
                    f"link add {name}r{rail} type veth peer name rail{rail} netns {name}",
                    f"link set {name}r{rail} up master rails{rail}",
                )
            )
            batch((f"address add 10.77.{rail}.{place + 1}/24 dev rail{rail}", f"link set rail{rail} up"), name)
        enter = ["ip", "netns", "exec", name]
        for rail in range(rails):
            argv = ["rdma", "link", "add", f"{name}x{rail}", "type", "rxe", "netdev", f"rail{rail}"]
            subprocess.run([*enter, *argv], check=True, timeout=60)
            # The kernel creates it in its first namespace.
            argv = ["rdma", "dev", "set", f"{name}x{rail}", "netns", name]
            subprocess.run(argv, check=True, timeout=60)
            # All are equally slow, so that the network is the limit, and not the processor.
            argv = ["tc", "qdisc", "add", "dev", f"rail{rail}", "root", "handle", "1:", *RATE.split()]
            subprocess.run([*enter, *argv], check=True, timeout=60)
        # It keeps a mount of the namespace's sysfs, too.
        null = subprocess.DEVNULL
        holder = subprocess.Popen(
            [*enter, "sleep", "infinity"], stdin=null, stdout=null, stderr=null, start_new_session=True
        )
        with open(f"{PLACE}/{name}.pid", "w", encoding="ascii") as stream:
            stream.write(str(holder.pid))


def remove() -> None:
    for name in sorted(os.listdir(PLACE)):
        if name.endswith(".pid"):
            with open(f"{PLACE}/{name}", encoding="ascii") as stream:
                os.kill(int(stream.read()), 9)
            subprocess.run(["ip", "netns", "delete", name[:-4]], check=True, timeout=60)
        os.unlink(f"{PLACE}/{name}")
    os.rmdir(PLACE)
    batch(f"link delete {name}" for name in os.listdir("/sys/class/net") if name.startswith("rails"))


def run(plan: Json) -> list[Json]:
    """Run each round: all servers, and then the clients, so many at once."""
    results: list[Json] = []
    with concurrent.futures.ThreadPoolExecutor(plan["at_once"]) as pool:
        for turn in plan["rounds"]:
            served = pool.map(
                lambda item: measure.listen(item[1], LIFETIME, PATIENCE, Space(item[0])), turn["serve"].items()
            )
            failed = [result for part in served for result in part]
            results += failed
            down = {result["id"] for result in failed}
            wanted = {
                name: [test for test in tests if test["id"] not in down] for name, tests in turn["measure"].items()
            }
            measured = pool.map(lambda item: measure.measure(item[1], LIMIT, PATIENCE, Space(item[0])), wanted.items())
            results += [result for part in measured for result in part]
    return results


if __name__ == "__main__":
    if sys.argv[1] == "create":
        create(*map(int, sys.argv[2:]))
    elif sys.argv[1] == "remove":
        remove()
    else:
        print(json.dumps(run(json.loads(zlib.decompress(base64.b64decode(sys.argv[2]))))))
