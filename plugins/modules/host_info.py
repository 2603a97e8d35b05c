#!/usr/bin/python
# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Collect the state of a host in one process, and find out whether modules would change something
version_added: 0.1.0
description:
  - Reads in one module process what a role compares before it decides whether anything needs to be done. A role that calls C(package), C(copy) and C(systemd)
    one by one needs a process for each, on every host, even if nothing differs.
  - If options of other modules are given, it determines what those modules would do, using their own code. If RV(differs) is empty, a role may skip them.
  - Nothing is changed.
author:
  - rdmaops contributors (@rdmaops)
extends_documentation_fragment:
  - rdmaops.gpu_fabric._attributes
  - rdmaops.gpu_fabric._attributes.info_module
  - rdmaops.gpu_fabric._attributes.linux
options:
  packages:
    description:
      - Package names to check, by distribution. A key is a value of C(ID) or a word of C(ID_LIKE) in V(/etc/os-release). C(ID) is tried first, then the words
        in their order.
      - On Debian and Ubuntu, a virtual package is present if an installed package provides it.
    type: dict
    default: {}
  extra_packages:
    description: Additional package names to check on any distribution.
    type: list
    elements: str
    default: []
  units:
    description: Names of systemd units, with their suffix.
    type: list
    elements: str
    default: []
  rdma_system:
    description:
      - Options of M(rdmaops.gpu_fabric.rdma_system), which requires root.
    type: dict
  owned_files:
    description: Options of M(rdmaops.gpu_fabric.owned_files).
    type: dict
  modprobe_options:
    description: Options of M(rdmaops.gpu_fabric.modprobe_options), for each kernel module.
    type: list
    elements: dict
    default: []
  host_rails:
    description: Options of M(rdmaops.gpu_fabric.host_rails), which requires root.
    type: dict
seealso:
  - module: rdmaops.gpu_fabric.rdma_system
  - module: rdmaops.gpu_fabric.owned_files
  - module: rdmaops.gpu_fabric.modprobe_options
  - module: rdmaops.gpu_fabric.host_rails
"""

EXAMPLES = r"""
- name: Collect the state of a host before deciding what it needs
  rdmaops.gpu_fabric.host_info:
    packages:
      debian: [rdma-core, perftest]
      rhel: [rdma-core, perftest]
    units: [containerd.service]
  register: host

- name: Check also what other modules would change
  rdmaops.gpu_fabric.host_info:
    rdma_system:
      netns_mode: exclusive
    modprobe_options:
      - name: mlx5_core
        options: {prof_sel: 2}
  register: host

- name: Apply the mode to the host, if something differs
  rdmaops.gpu_fabric.rdma_system:
    netns_mode: exclusive
  when: host.differs | length > 0
"""

RETURN = r"""
os:
  description: The distribution and the running kernel.
  returned: success
  type: dict
  sample: {"id": "debian", "id_like": [], "version_id": "13", "kernel": "7.2.12+deb13-amd64"}
packages:
  description:
    - The requested packages on this distribution.
    - C(key) is the key of O(packages) that matched, null if none did.
    - C(manager) is the short name of the module that installs packages here.
  returned: success
  type: dict
  sample: {"key": "debian", "manager": "apt", "wanted": ["rdma-core", "perftest"], "missing": ["perftest"]}
units:
  description:
    - State by unit, in systemd's terms. Empty if systemd does not run.
    - C(memlock) is the soft limit of the running main process in bytes, V(unlimited), or null if the unit does not run.
    - C(need_daemon_reload) is whether systemd must still read a changed file of the unit.
  returned: success
  type: dict
  sample:
    containerd.service: {"load_state": "loaded", "active_state": "active", "main_pid": 912, "memlock": 8388608, "need_daemon_reload": false}
differs:
  description:
    - What differs from the requested state, in sentences. Missing packages, a distribution without packages in O(packages), and for each module what it would
      do, what it would warn about, what is out of sync or unknown, or the error with which it would fail.
    - If it is not empty, run the modules themselves, which report everything.
  returned: success
  type: list
  elements: str
  sample: ["rdma_system: Write /etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"]
rdma_system:
  description: What M(rdmaops.gpu_fabric.rdma_system) returns in check mode; null if it was not requested, or would fail.
  returned: success
  type: dict
  sample: null
resources:
  description:
    - What all the modules return as C(resources). Empty if RV(differs) is not, because the modules must be run then.
  returned: success
  type: list
  elements: dict
  sample:
    - {"kind": "rdma_system", "name": "netns_mode", "status": "in_sync", "desired": "exclusive", "configured": "exclusive", "live": "exclusive",
       "next_boot": "exclusive"}
"""

import os
import shlex
import typing as t

from ansible.module_utils.basic import AnsibleModule

MAX_FILE_BYTES = 65536
COMMAND_LIMIT_S = 60


class LookError(Exception):
    """Something could not be read; the text has its name and the system's answer."""


def parse_os_release(text: str) -> dict[str, t.Any]:
    """Return the identifying fields of an os-release(5) file."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, sign, value = line.strip().partition("=")
        if not sign or key.startswith("#"):
            continue
        try:
            fields[key] = " ".join(shlex.split(value))
        except ValueError:
            fields[key] = value
    return {
        "id": fields.get("ID", "linux"),
        "id_like": fields.get("ID_LIKE", "").split(),
        "version_id": fields.get("VERSION_ID", ""),
    }


def choose(packages: t.Mapping[str, t.Any], system: t.Mapping[str, t.Any]) -> str | None:
    """Return the key of ``packages`` that names this distribution or one that it is like."""
    for name in [system["id"], *system["id_like"]]:
        if name in packages:
            return name
    return None


def parse_dpkg(stdout: str) -> set[str]:
    """Return the installed packages in what ``dpkg-query -W -f '${db:Status-Status} ${Package}\\n'`` printed."""
    return {line.split()[1] for line in stdout.splitlines() if line.startswith("installed ")}


def parse_provides(stdout: str) -> set[str]:
    """Return the names that installed packages provide, of lines of ``${db:Status-Status} ${Package} ${Provides}``.

    The field is a list of names, each with a version or without (Debian Policy, "Syntax of relationship fields").
    """
    fields = [line.split(None, 2) for line in stdout.splitlines() if line.startswith("installed ")]
    return {name.split()[0] for field in fields if len(field) == 3 for name in field[2].split(",")}


def parse_rpm(stdout: str) -> set[str]:
    """Return the installed packages in what ``rpm -q --qf '%{NAME}\\n'`` printed; its other lines are sentences."""
    return {line.strip() for line in stdout.splitlines() if line.strip() and " " not in line.strip()}


def parse_show(stdout: str) -> dict[str, dict[str, str]]:
    """Return the properties that ``systemctl show`` printed, by unit; units are parted by empty lines."""
    units = {}
    for block in stdout.split("\n\n"):
        fields = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if "Id" in fields:
            units[fields["Id"]] = fields
    return units


def parse_limits(text: str) -> t.Any:
    """Return the soft limit of locked memory in a ``/proc/PID/limits``: bytes or ``unlimited`` (proc(5))."""
    for line in text.splitlines():
        if line.startswith("Max locked memory"):
            soft = line[len("Max locked memory") :].split()[0]
            return soft if soft == "unlimited" else int(soft)
    return None


class Looker:
    """The edges: commands and files of this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        module.run_command_environ_update = {"LANG": "C", "LC_ALL": "C"}

    def run(self, argv: list[str], good: tuple[int, ...] = (0,)) -> str:
        program = self.module.get_bin_path(argv[0])
        if program is None:
            raise LookError("Running %s: it is not installed on this host; install it" % argv[0])
        timeout = self.module.get_bin_path("timeout")
        limit = [timeout, str(COMMAND_LIMIT_S)] if timeout else []
        rc, stdout, stderr = self.module.run_command([*limit, program, *argv[1:]])
        if rc not in good:
            raise LookError("Running %s: exit status %d: %s" % (" ".join(argv), rc, stderr.strip() or stdout.strip()))
        return stdout

    def system(self) -> dict[str, t.Any]:
        text = self.file("/etc/os-release") or self.file("/usr/lib/os-release") or ""
        return dict(parse_os_release(text), kernel=os.uname().release)

    def file(self, path: str) -> str | None:
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                text = stream.read(MAX_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise LookError("Reading %s: %s" % (path, exc.strerror)) from exc
        if len(text) > MAX_FILE_BYTES:
            raise LookError("Reading %s: larger than %d bytes" % (path, MAX_FILE_BYTES))
        return text

    def packages(
        self, lists: t.Mapping[str, t.Any], extra: t.Sequence[str], system: t.Mapping[str, t.Any]
    ) -> dict[str, t.Any]:
        key = choose(lists, system)
        names = [*(lists[key] if key is not None else []), *extra]
        debian = self.module.get_bin_path("dpkg-query") is not None
        look = {"key": key, "manager": "apt" if debian else "dnf", "wanted": names, "missing": []}
        if not names:
            return look
        if debian:
            # Exit status 1: some of the names are unknown to dpkg, that is not installed (dpkg-query(1)).
            argv = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *names]
            installed = parse_dpkg(self.run(argv, good=(0, 1)))
            if not installed.issuperset(names):
                # A virtual package has no status of its own: containerd of Ubuntu 26.04.
                argv = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Provides}\n"]
                installed |= parse_provides(self.run(argv))
        else:
            # rpm exits with the number of names that are not installed.
            argv = ["rpm", "-q", "--qf", "%{NAME}\n", *names]
            installed = parse_rpm(self.run(argv, good=tuple(range(len(names) + 1))))
        look["missing"] = [name for name in names if name not in installed]
        return look

    def units(self, names: t.Sequence[str]) -> dict[str, t.Any]:
        # sd_booted(3): the directory exists exactly if systemd is the init system.
        if not names or not os.path.isdir("/run/systemd/system"):
            return {}
        shown = parse_show(
            self.run(
                ["systemctl", "show", "--property=Id,LoadState,ActiveState,MainPID,NeedDaemonReload", "--", *names]
            )
        )
        units = {}
        for name in names:
            fields = shown.get(name, {})
            pid = int(fields.get("MainPID", "0"))
            limits = self.file("/proc/%d/limits" % pid) if pid else None
            units[name] = {
                "load_state": fields.get("LoadState"),
                "active_state": fields.get("ActiveState"),
                "main_pid": pid or None,
                "memlock": parse_limits(limits) if limits else None,
                "need_daemon_reload": fields.get("NeedDaemonReload") == "yes",
            }
        return units


def compared(params: t.Mapping[str, t.Any]) -> tuple[dict[str, list[dict[str, t.Any]]], list[str]]:
    """Return what other modules have found, and what they would change, in sentences."""
    one_call = ("rdma_system", "owned_files", "host_rails")
    asked = {name: [params[name]] for name in one_call if params[name] is not None}
    asked["modprobe_options"] = params["modprobe_options"]
    if not any(asked.values()):
        return {}, []
    from ..module_utils._host import compare

    return compare.compare(asked)


def look(looker: Looker, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return everything that was requested."""
    system = looker.system()
    packages = looker.packages(params["packages"], params["extra_packages"], system)
    differs = ["packages: %s is missing" % name for name in packages["missing"]]
    if packages["key"] is None and params["packages"]:
        differs.append("packages: no list for %s" % system["id"])
    results, others = compared(params)
    differs += others
    reports = [report for name in results for report in results[name]]
    return {
        "os": system,
        "packages": packages,
        "units": looker.units(params["units"]),
        "differs": differs,
        "rdma_system": next(iter(results.get("rdma_system", ())), None),
        "resources": [] if differs else [row for report in reports for row in report["resources"]],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "default": {}},
            "extra_packages": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "rdma_system": {"type": "dict"},
            "owned_files": {"type": "dict"},
            "modprobe_options": {"type": "list", "elements": "dict", "default": []},
            "host_rails": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, **look(Looker(module), module.params))
    except LookError as exc:
        module.fail_json(msg=str(exc))


if __name__ == "__main__":
    main()
