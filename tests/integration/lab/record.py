#!/usr/bin/env python3
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record RDMA netlink conversations, and texts of /sys and /proc, of a lab node into the unit tests' fixtures.

    .venv/bin/python tests/integration/lab/record.py [NODE]

The node is in shared mode with its soft-RoCE links, and has perftest; it is left as it was.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, lab_ssh

FIXTURES = COLLECTION / "tests/unit/plugins/module_utils/fixtures"

PROGRAM = """
import subprocess

class Recorder(netlink.Transport):
    def send(self, data):
        self.request, self.replies = data.hex(), []
        super().send(data)
    def receive(self):
        data = super().receive()
        self.replies.append(data.hex())
        return data

exchanges = []
def record(name, *arguments):
    transport = Recorder()
    error = None
    try:
        getattr(nldev, name)(*arguments, transport=transport)
    except nldev.NldevError as exc:
        error = exc.name
    finally:
        transport.close()
    exchanges.append({"call": name, "arguments": list(arguments), "error": error,
                      "request": transport.request, "replies": transport.replies})

def tool(*argv):
    return subprocess.run(["rdma", *argv], capture_output=True, text=True, check=True).stdout

# A process with an open context, and the kernel's own objects.
user = subprocess.Popen(["ib_write_bw", "-d", "rxe0", "-p", "19999"], stdout=subprocess.DEVNULL)
import time
deadline = time.monotonic() + 60
while not [one for one in nldev.users(0, "ctx") if one.pid == user.pid]:
    assert time.monotonic() < deadline and user.poll() is None
    time.sleep(0.2)
try:
    pid = user.pid
    record("sys_get")
    record("devices")
    record("ports", 0)
    record("ports", 1)
    record("resources")
    for kind in ("ctx", "qp", "cm_id", "cq", "mr", "pd", "srq"):
        record("users", 0, kind)
    record("chardev", 0, "uverbs")
    record("chardev", 0, "no such client")
    record("statistics", 0, 1)
    record("statistics", 0, 9)
    record("ports", 99)
    record("sys_set_netns_mode", "shared")
    record("link_add", "rdt0", "rxe", "no-such-netdev")
    record("link_add", "rdt0", "no-such-type", "lo")
    record("link_add", "rdt0", "rxe", sys.argv[1])
    record("link_del", 99)
    record("set_netns", 0, os.open("/proc/self/ns/net", os.O_RDONLY))
    record("set_netns", 99, os.open("/proc/self/ns/net", os.O_RDONLY))
    outputs = {
        "system": tool("system"),
        "dev": json.loads(tool("-j", "dev")),
        "link": json.loads(tool("-j", "link")),
        "resource": json.loads(tool("-j", "resource", "show")),
        "statistic": json.loads(tool("-j", "statistic", "show", "link", "rxe0/1")),
        "uverbs": {name: open(f"/sys/class/infiniband_verbs/{name}/dev").read().strip()
                   for name in os.listdir("/sys/class/infiniband_verbs")
                   if name != "abi_version"
                   and open(f"/sys/class/infiniband_verbs/{name}/ibdev").read().strip() == "rxe0"},
    }
finally:
    user.kill()
    user.wait()
subprocess.run(["ip", "netns", "add", "rdt"], check=True)
try:
    record("sys_set_netns_mode", "exclusive")
finally:
    subprocess.run(["ip", "netns", "del", "rdt"], check=True)
os.setuid(65534)
record("sys_get")
record("sys_set_netns_mode", "exclusive")
print(json.dumps({
    "kernel": os.uname().release,
    "iproute2": tool("-V").strip(),
    "user_pid": pid,
    "rdma": outputs,
    "exchanges": exchanges,
}))
"""

TEXTS = """
import glob, subprocess, time

def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()

release = os.uname().release
files = {"sys/module/ib_core/parameters/netns_mode": read("/sys/module/ib_core/parameters/netns_mode")}
for name in ("modules.dep", "modules.builtin"):
    path = f"usr/lib/modules/{release}/{name}"
    # Of thousands of lines, those of the subsystem.
    files[path] = "".join(line for line in read("/" + path).splitlines(True) if "/infiniband/" in line.split(":")[0])
processes = {}
subprocess.run(["ip", "netns", "add", "rdt"], check=True)
subprocess.run(["systemd-run", "-q", "--service-type=exec", "--unit=rdt", "-p", "PrivateNetwork=yes", "sleep", "600"], check=True)
try:
    main = subprocess.run(["systemctl", "show", "-P", "MainPID", "rdt"], capture_output=True, text=True).stdout.strip()
    inode = os.stat("/run/netns/rdt").st_ino
    for pid in ("1", "2", main, str(os.getpid())):
        processes[pid] = {name: read(f"/proc/{pid}/{name}") for name in ("stat", "cgroup", "mountinfo")}
finally:
    subprocess.run(["systemctl", "stop", "rdt"], check=True)
    subprocess.run(["ip", "netns", "del", "rdt"], check=True)
print(json.dumps({
    "kernel": release,
    "systemd": subprocess.run(["systemctl", "--version"], capture_output=True, text=True).stdout.split()[1],
    "devices": sorted(os.listdir("/sys/class/infiniband")),
    "modinfo": subprocess.run(["modinfo", "-n", "ib_core"], capture_output=True, text=True).stdout.strip(),
    "files": files,
    "unit_pid": main,
    "netns": inode,
    "processes": processes,
}))
"""


def write(name: str, content: dict[str, t.Any]) -> None:
    FIXTURES.mkdir(exist_ok=True)
    path = FIXTURES / name
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    # REUSE-IgnoreStart
    path.with_name(path.name + ".license").write_text(
        "Copyright: (c) 2026, rdmaops contributors\nSPDX-License-Identifier: GPL-3.0-or-later\n", encoding="utf-8"
    )
    # REUSE-IgnoreEnd
    print(path)


def main() -> None:
    node = lab_ssh.guest(sys.argv[1] if len(sys.argv) > 1 else "")
    node.install()
    try:
        recorded: dict[str, t.Any] = json.loads(node.python(PROGRAM, node.rails[0]["netdev"]))
        texts: dict[str, t.Any] = json.loads(node.python(TEXTS))
    finally:
        node.remove()
    kernel = recorded["kernel"].split("+")[0]
    write(f"nldev_linux-{kernel}_iproute2-{recorded['iproute2'].rsplit('-', 1)[1]}.json", recorded)
    write(f"proc_linux-{kernel}_systemd-{texts['systemd']}.json", texts)


if __name__ == "__main__":
    main()
