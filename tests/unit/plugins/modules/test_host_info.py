# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module reads, from what the tools print."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.modules import host_info
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n'
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n'
ALMA = 'ID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'

# /etc/os-release, keys on offer, chosen key
CHOICES = [
    (DEBIAN, ["debian", "rhel"], "debian"),
    (UBUNTU, ["debian", "rhel"], "debian"),
    (UBUNTU, ["debian", "ubuntu"], "ubuntu"),
    (ALMA, ["fedora", "rhel"], "rhel"),
    (ALMA, ["debian"], None),
    ("", ["debian"], None),
    ("# ID=debian\nID='un closed\n", ["debian"], None),
]


@pytest.mark.parametrize(("text", "keys", "chosen"), CHOICES)
def test_choose(text: str, keys: list[str], chosen: str | None) -> None:
    assert host_info.choose({key: [] for key in keys}, host_info.parse_os_release(text)) == chosen


def test_dpkg_counts_only_what_is_installed() -> None:
    # dpkg-query 1.22.22 (Debian 13): installed, removed with its configuration left, half-configured
    stdout = "installed rdma-core\nconfig-files perftest\nhalf-configured ibverbs-utils\n"
    assert host_info.parse_dpkg(stdout) == {"rdma-core"}


def test_rpm_sentences_are_no_packages() -> None:
    # rpm 4.16.1 (RHEL 9), hand-made after rpm(8)
    assert host_info.parse_rpm("rdma-core\npackage perftest is not installed\n") == {"rdma-core"}


def test_units_are_parted_by_empty_lines() -> None:
    # systemctl show of systemd 257, of a running unit and one that does not exist
    stdout = (
        "MainPID=912\nId=containerd.service\nLoadState=loaded\nActiveState=active\nNeedDaemonReload=no\n"
        "\n"
        "MainPID=0\nId=crio.service\nLoadState=not-found\nActiveState=inactive\nNeedDaemonReload=no\n"
    )
    shown = host_info.parse_show(stdout)
    assert shown["containerd.service"]["MainPID"] == "912"
    assert shown["crio.service"]["LoadState"] == "not-found"


# /proc/PID/limits, soft limit
LIMITS = [
    ("Max locked memory         8388608              8388608              bytes     \n", 8388608),
    ("Max locked memory         unlimited            unlimited            bytes     \n", "unlimited"),
    ("Max open files            1024                 524288               files     \n", None),
]


@pytest.mark.parametrize(("text", "soft"), LIMITS)
def test_limits(text: str, soft: t.Any) -> None:
    assert host_info.parse_limits("Limit                     Soft Limit\n" + text) == soft


class FakeModule:
    """Stands in for AnsibleModule: scripted commands, of which the last is repeated."""

    def __init__(self, programs: list[str], *answers: tuple[int, str, str]) -> None:
        self.programs = programs
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def get_bin_path(self, name: str) -> str | None:
        return "/usr/bin/" + name if name in self.programs else None

    def run_command(self, argv: list[str]) -> tuple[int, str, str]:
        self.asked.append(argv)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def looker(module: FakeModule) -> host_info.Looker:
    return host_info.Looker(t.cast("t.Any", module))


def test_packages_asks_dpkg_once_for_all() -> None:
    module = FakeModule(["dpkg-query", "timeout"], (0, "installed rdma-core\ninstalled perftest\ninstalled tmux\n", ""))
    system = host_info.parse_os_release(DEBIAN)
    packages = {"wanted": ["rdma-core", "perftest", "tmux"], "missing": []}
    answer = looker(module).packages({"debian": ["rdma-core", "perftest"]}, ["tmux"], system)
    assert answer == {"key": "debian", "manager": "apt", **packages}
    assert len(module.asked) == 1


def test_a_package_that_another_provides_is_not_missing() -> None:
    """On Ubuntu 26.04, containerd is a virtual package: https://packages.ubuntu.com/resolute/all/containerd."""
    # dpkg-query 1.22.22
    known = (1, "installed iptables\n", "dpkg-query: no packages found matching containerd")
    provided = (
        "installed iptables\n"
        "config-files old-rdma perftest\n"
        "installed apt apt-transport-https (= 2.6.1), virtual\n"
        "installed containerd-stable containerd\n"
    )
    module = FakeModule(["dpkg-query"], known, (0, provided, ""))
    system = host_info.parse_os_release(DEBIAN)
    names = ["containerd", "iptables", "perftest", "apt-transport-https", "virtual"]
    answer = looker(module).packages({"debian": names}, [], system)
    assert answer["missing"] == ["perftest"]
    assert module.asked[1][1:] == ["-W", "-f", "${db:Status-Status} ${Package} ${Provides}\n"]


def test_a_failing_tool_is_an_error_and_not_an_absence() -> None:
    module = FakeModule(["dpkg-query"], (2, "", "dpkg-query: error: failed to open package info file"))
    system = host_info.parse_os_release(DEBIAN)
    assert message_of(host_info.LookError, looker(module).packages, {"debian": ["rdma-core"]}, [], system) == (
        "Running dpkg-query -W -f ${db:Status-Status} ${Package}\n rdma-core: exit status 2: "
        "dpkg-query: error: failed to open package info file"
    )


def test_a_missing_tool_is_an_error() -> None:
    with pytest.raises(host_info.LookError, match=r"^Running rpm: it is not installed on this host; install it$"):
        looker(FakeModule([])).packages({"rhel": ["rdma-core"]}, [], host_info.parse_os_release(ALMA))


def asked(**more: t.Any) -> dict[str, t.Any]:
    nothing: dict[str, t.Any] = {"packages": {}, "extra_packages": [], "units": []}
    return {**nothing, "rdma_system": None, "owned_files": None, "modprobe_options": [], "host_rails": None, **more}


def test_what_differs_is_told_and_then_no_resources(tmp_path: Path) -> None:
    module = FakeModule(["dpkg-query"], *[(1, "installed rdma-core\n", "")] * 2, (0, "", ""))
    path = tmp_path / "one.conf"
    gone = {"owned_files": {"files": [{"path": str(path)}]}}
    result = host_info.look(looker(module), asked(extra_packages=["rdma-core"], **gone))
    assert (result["differs"], [resource["status"] for resource in result["resources"]]) == ([], ["in_sync"])
    assert result["rdma_system"] is None
    # What is in sync is told by the module itself then, with what is not.
    result = host_info.look(looker(module), asked(extra_packages=["perftest"], packages={"none": []}, **gone))
    assert result["differs"][0] == "packages: perftest is missing"
    assert result["differs"][1].startswith("packages: no list for ")
    assert result["resources"] == []
    wish = {"owned_files": {"files": [{"path": str(path), "content": "x"}]}}
    result = host_info.look(looker(module), asked(**wish))
    assert (result["differs"], result["resources"]) == ([f"owned_files: Write {path}"], [])
    assert not path.exists()


def test_nothing_asked_of_modules_costs_nothing() -> None:
    assert host_info.compared(asked()) == ({}, [])
