# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on the mode, over a host whose sources are given by the test."""

from __future__ import annotations

import errno
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import prediction
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.host import RDMA_DROP_IN as DROP_IN
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import (
    Holder,
    Namespace,
    Survey,
    Unreadable,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma import kernel
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.model import Host, ModeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._rdma_mode.fakes import (
    GRUB,
    IMAGE,
    OURS,
    FakeHost,
    run,
)

POD = Namespace(4026532270, "pod", [Holder("mount", "/run/netns/pod", 1, "systemd", "init.scope", None)], 1)
OTHER = Namespace(4026532271, None, [Holder("process", "/proc/340/ns/net", 340, "sleep", "pn.service", None)], 1)


# what the host is like, options -> actions, live after, next boot after, reboot required after, would it help
WRITE = f"Write {DROP_IN}"
SWITCH = "Switch the RDMA subsystem from shared to exclusive"
REBUILD = f"Rebuild {IMAGE}"
REMOVE = f"Remove {DROP_IN}"
SWITCH_BACK = "Switch the RDMA subsystem from exclusive to shared"
BACK = {"netns_mode": "shared", "state": "absent"}
THEIRS = {"/etc/modprobe.d/site.conf": "options ib_core netns_mode=0\n"}
VERDICTS: list[tuple[dict[str, t.Any], dict[str, t.Any], tuple[t.Any, ...]]] = [
    ({}, {}, ([WRITE, SWITCH], "exclusive", "exclusive", False, True)),
    ({"spaces": [POD]}, {}, ([WRITE], "shared", "exclusive", True, True)),
    ({}, {"runtime": "never"}, ([WRITE], "shared", "exclusive", True, True)),
    ({}, {"persistent": False}, ([SWITCH], "exclusive", "shared", False, False)),
    ({}, {"persistent": False, "runtime": "never"}, ([], "shared", "shared", True, False)),
    ({"live": "exclusive", "files": OURS}, {}, ([], "exclusive", "exclusive", False, True)),
    ({"live": None}, {}, ([WRITE], None, "exclusive", False, True)),
    ({"forced": True, "spaces": [POD]}, {}, ([WRITE, REBUILD], "shared", "exclusive", True, True)),
    ({"forced": True, "spaces": [POD]}, {"initramfs": "report"}, ([WRITE], "shared", "shared", True, False)),
    ({"contained": True, "spaces": [POD]}, {"initramfs": "report"}, ([WRITE], "shared", None, True, None)),
    ({"files": OURS, "forced": True, "spaces": [POD]}, {}, ([REBUILD], "shared", "exclusive", True, True)),
    ({"files": OURS, "cmdline": "ib_core.netns_mode=1", "spaces": [POD]}, {}, ([], "shared", "shared", True, False)),
    ({"files": OURS, "cmdline": "ib_core.netns_mode=0", "spaces": [POD]}, {}, ([], "shared", "exclusive", True, True)),
    ({"files": OURS, "cmdline": None, "spaces": [POD]}, {}, ([], "shared", None, True, None)),
    ({"live": "exclusive", "files": OURS}, BACK, ([REMOVE, SWITCH_BACK], "shared", "shared", False, True)),
    ({"live": "exclusive", "files": OURS, "spaces": [POD]}, BACK, ([REMOVE], "exclusive", "shared", True, True)),
    ({"live": "shared"}, BACK, ([], "shared", "shared", False, True)),
    (
        {"live": "exclusive", "files": {**OURS, **THEIRS}},
        BACK,
        ([REMOVE, SWITCH_BACK], "shared", "exclusive", False, False),
    ),
]


@pytest.mark.parametrize(("like", "options", "expected"), VERDICTS)
def test_verdicts(
    tmp_path: Path, like: dict[str, t.Any], options: dict[str, t.Any], expected: tuple[t.Any, ...]
) -> None:
    host = FakeHost(tmp_path / "checked", **like)
    checked = run(host, check_mode=True, **options)
    assert host.done == []

    host = FakeHost(tmp_path / "host", **like)
    result = run(host, **options)
    actions, live, next_boot, required, would_help = expected
    assert result["actions"] == actions
    assert result["changed"] == bool(actions)
    assert result["after"]["live"] == live
    assert result["after"]["next_boot"] == next_boot
    assert result["after"]["reboot_required"] is required
    assert result["after"]["reboot_would_help"] is would_help
    assert len(host.done) == len([action for action in actions if not action.startswith(("Write ", "Remove "))])
    assert checked == result

    again = run(host, **options)
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
    for key in ("live", "next_boot"):
        assert again["mode"][key] == result["after"][key]
    assert again["reboot_required"] is required
    assert run(host, check_mode=True, **options) == again


def test_what_was_found_is_told_as_it_was_before(tmp_path: Path) -> None:
    result = run(FakeHost(tmp_path, forced=True, spaces=[POD]))
    assert result["mode"] == {
        "desired": "exclusive",
        "configured": None,
        "cmdline": {"running": None, "next_boot": None},
        "initramfs": {"image": IMAGE, "contains_module": True, "forced": True, "value": None},
        "live": "shared",
        "next_boot": "shared",
    }
    assert result["reboot_would_help"] is False
    values = {"desired": "exclusive", "configured": None, "live": "shared", "next_boot": "shared"}
    assert result["resources"] == [{"kind": "rdma_system", "name": "netns_mode", "status": "drift", **values}]


def test_reasons_name_the_line_that_is_in_the_way(tmp_path: Path) -> None:
    result = run(FakeHost(tmp_path, files=OURS, cmdline="quiet ib_core.netns_mode=1", spaces=[POD, OTHER]))
    assert result["mode"]["cmdline"] == {"running": None, "next_boot": "shared"}
    assert result["conflicts"] == [{"path": GRUB, "line": 128, "text": "ib_core.netns_mode=1", "wins": True}]
    assert result["after"]["reason"] == (
        "the RDMA subsystem is in mode shared instead of exclusive and cannot be switched live while other network "
        "namespaces exist (pod held by the mount /run/netns/pod; net:[4026532271] held by sleep (pid 340, pn.service)). The next boot sets shared, "
        'because of "ib_core.netns_mode=1" in /boot/grub/grub.cfg line 128. Remove it there, and from the source of '
        "that file."
    )


def test_a_command_line_that_sets_the_desired_mode_is_no_conflict(tmp_path: Path) -> None:
    result = run(FakeHost(tmp_path, files=OURS, cmdline="ib_core.netns_mode=N"))
    assert result["mode"]["cmdline"] == {"running": None, "next_boot": "exclusive"}
    assert result["conflicts"] == []


def test_the_boot_loader_has_its_own_remedy(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, files=OURS, cmdline="quiet ib_core.netns_mode=1")
    host.remedy = "Remove it with grubby --remove-args"
    result = run(host, runtime="never")
    assert result["boot_entry"] == {"kind": "grub", "source": GRUB, "line": 128, "title": "Debian"}
    assert result["reboot_reason"] == (
        "the RDMA subsystem is in mode shared instead of exclusive. The next boot sets shared, because of "
        '"ib_core.netns_mode=1" in /boot/grub/grub.cfg line 128. Remove it with grubby --remove-args.'
    )


def test_a_mode_that_this_role_has_written_before_is_no_conflict(tmp_path: Path) -> None:
    files = {DROP_IN: OURS[DROP_IN].replace("=0", "=1")}
    result = run(FakeHost(tmp_path, files=files), runtime="never")
    assert result["reboot_reason"] == (
        "the RDMA subsystem is in mode shared instead of exclusive. The next boot sets shared."
    )
    assert result["conflicts"] == []
    assert result["resources"][0]["configured"] == "shared"


def test_lines_that_say_otherwise_are_named_if_the_file_is_not_managed(tmp_path: Path) -> None:
    line = "options ib_core netns_mode=1"
    files = {"/etc/modprobe.d/a.conf": "options ib_core netns_mode=N\n", "/etc/modprobe.d/b.conf": line + "\n"}
    host = FakeHost(tmp_path, files={**files, "/etc/modprobe.d/a0.conf": line + "\n"})
    result = run(host, persistent=False, runtime="never")
    assert result["conflicts"] == [
        {"path": "/etc/modprobe.d/a0.conf", "line": 1, "text": line, "wins": False},
        {"path": "/etc/modprobe.d/b.conf", "line": 1, "text": line, "wins": True},
    ]
    assert result["reboot_reason"].endswith(
        'The next boot sets shared, because of "options ib_core netns_mode=1" in /etc/modprobe.d/b.conf line 1. '
        "Remove it there, and from the source of that file."
    )


def test_lines_of_others_are_named_where_ours_is_removed(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, live="exclusive", files={**OURS, **THEIRS})
    result = run(host, **BACK, runtime="never")
    assert result["actions"] == [REMOVE]
    assert result["conflicts"] == [
        {"path": "/etc/modprobe.d/site.conf", "line": 1, "text": "options ib_core netns_mode=0", "wins": True}
    ]
    assert result["after"]["reason"] == (
        "the RDMA subsystem is in mode exclusive instead of shared. The next boot sets exclusive, because of "
        '"options ib_core netns_mode=0" in /etc/modprobe.d/site.conf line 1. Remove it there, and from the source of '
        "that file."
    )


def test_lines_that_are_taken_over_are_named_once(tmp_path: Path) -> None:
    site, line = "/etc/modprobe.d/site.conf", "options ib_core netns_mode=1"
    host = FakeHost(tmp_path, files={site: line + "\n"})
    result = run(host, on_conflict="take_over")
    assert result["actions"] == [f"Back up {site}", WRITE, f"Write {site}", SWITCH]
    assert result["conflicts"] == [{"path": site, "line": 1, "text": line, "wins": False}]
    assert run(host, on_conflict="take_over")["conflicts"] == []


def process(pid: int) -> Holder:
    return Holder("process", f"/proc/{pid}/ns/net", pid, "sleep", None, None)


# how many processes hold each namespace, what is said of it
@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0], "space0 held by nothing that can be seen"),
        ([4], "space0 held by sleep (pid 11), sleep (pid 12), sleep (pid 13)"),
        ([1, 1, 1], "space0 held by sleep (pid 11); space1 held by sleep (pid 11); space2 held by sleep (pid 11)"),
        (
            [2, 0, 1, 1, 1],
            (
                "space0 held by sleep (pid 11), sleep (pid 12); space1 held by nothing that can be seen; space2 held "
                "by sleep (pid 11); 2 more"
            ),
        ),
    ],
)
def test_three_namespaces_and_three_holders_of_each_are_named(tmp_path: Path, numbers: list[int], text: str) -> None:
    spaces = [
        Namespace(4026532270 + index, f"space{index}", [process(11 + pid) for pid in range(number)], number)
        for index, number in enumerate(numbers)
    ]
    result = run(FakeHost(tmp_path, files=OURS, spaces=spaces))
    assert result["reboot_reason"] == (
        "the RDMA subsystem is in mode shared instead of exclusive and cannot be switched live while other network "
        f"namespaces exist ({text}). The next boot sets exclusive."
    )
    assert [len(blocker["holders"]) for blocker in result["blockers"]] == numbers


def test_who_uses_the_devices_is_told_where_a_reboot_would_end_it(tmp_path: Path) -> None:
    pod = {"namespace": "training", "name": "worker-0", "uid": "0c9b"}
    host = FakeHost(tmp_path, files=OURS, spaces=[POD])
    host.open = [{"device": "mlx5_0", "pid": 4711, "command": "python3", "pod": pod}]
    result = run(host)
    assert result["users"] == host.open
    assert result["after"]["reason"].endswith(
        ". The next boot sets exclusive. A reboot ends the use of mlx5_0 by python3 (pid 4711, pod training/worker-0)."
    )
    host.open = OSError("Could not list the ctx objects")
    result = run(host)
    assert result["users"] is None
    assert result["problems"] == ["the users of the RDMA devices are not known: Could not list the ctx objects"]
    # Nobody is looked for where the mode is right.
    host.mode = "exclusive"
    assert (run(host)["users"], run(host)["problems"]) == ([], [])


def test_unknown_is_said_and_is_neither_yes_nor_no(tmp_path: Path) -> None:
    result = run(FakeHost(tmp_path, live="exclusive", files=OURS, cmdline=None))
    assert result["mode"]["next_boot"] is None
    assert result["reboot_would_help"] is None
    assert result["problems"] == ["Reading /boot/grub/grub.cfg: no menuentry found"]
    assert result["resources"][0]["status"] == "unknown"


def test_require_refuses_before_anything_is_written(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, spaces=[POD])
    assert message_of(ModeError, run, host, runtime="require") == (
        "Switching the RDMA subsystem from shared to exclusive: the kernel refuses while other network namespaces exist: "
        "pod held by the mount /run/netns/pod. Stop their holders, or set runtime to auto and reboot"
    )
    assert host.done == []


def test_a_namespace_in_between_leaves_it_to_a_reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path, files=OURS)
    host.switch_error = OSError(errno.EBUSY, "Device or resource busy")
    monkeypatch.setattr(host, "other_namespaces", iter([Survey([], []), Survey([POD], [])]).__next__)
    result = run(host)
    assert (result["actions"], result["changed"]) == ([], False)
    assert [item["name"] for item in result["blockers"]] == ["pod"]
    assert result["after"]["reboot_required"] is True


def test_namespaces_are_looked_for_once_without_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path, files=OURS)
    monkeypatch.setattr(host, "other_namespaces", iter([Survey([POD], []), Survey([], [])]).__next__)
    assert [item["name"] for item in run(host)["blockers"]] == ["pod"]


def test_a_namespace_after_the_switch_is_not_in_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(tmp_path, files=OURS)
    monkeypatch.setattr(host, "other_namespaces", iter([Survey([], []), Survey([POD], [])]).__next__)
    result = run(host)
    assert (result["actions"], result["blockers"]) == ([SWITCH], [])
    assert result["reboot_reason"] == (
        "the RDMA subsystem is in mode shared instead of exclusive. The next boot sets exclusive."
    )


# has the boot entry an initramfs, next boot, would a reboot help, is the initramfs stale
@pytest.mark.parametrize(
    ("has", "following", "would_help", "stale"), [(False, "exclusive", True, False), (True, None, None, None)]
)
def test_a_missing_or_unreadable_initramfs_is_not_reported(
    tmp_path: Path,
    has: bool,
    following: str | None,
    would_help: bool | None,
    stale: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = FakeHost(tmp_path, files=OURS, spaces=[POD])
    src = host.sources()._replace(contents=None, has_initramfs=has)
    monkeypatch.setattr(host, "sources", lambda: src)
    result = run(host)
    assert result["actions"] == []
    assert result["mode"]["initramfs"] is None
    assert (result["mode"]["next_boot"], result["reboot_would_help"]) == (following, would_help)
    assert result["initramfs_stale"] is stale


def test_no_root(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.as_root = False
    assert message_of(ModeError, run, host) == (
        "Reading the RDMA subsystem, the boot entry and the holders of network namespaces needs root; set become: true"
    )


def test_a_host_without_rdma(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, live=None)
    host.has_rdma = False
    with pytest.raises(ModeError, match=r"^Looking for the RDMA subsystem: kernel .* or set on_absent to ignore"):
        run(host)
    result = run(host, on_absent="ignore")
    assert result == {
        "changed": False,
        "actions": [],
        "diff": [],
        "mode": {
            "desired": "exclusive",
            "configured": None,
            "cmdline": {"running": None, "next_boot": None},
            "initramfs": None,
            "live": None,
            "next_boot": None,
        },
        "reboot_required": False,
        "reboot_would_help": None,
        "reboot_reason": "",
        "reboot_cause": None,
        "initramfs_stale": None,
        "conflicts": [],
        "blockers": [],
        "users": [],
        "boot_id": "0b5e3a4e",
        "boot_entry": None,
        "warnings": [],
        "problems": ["this kernel has no RDMA subsystem"],
        "after": {
            "live": None,
            "next_boot": None,
            "reboot_required": False,
            "reboot_would_help": None,
            "initramfs_stale": None,
            "reason": "",
        },
        "resources": [],
    }
    assert set(result) == set(run(FakeHost(tmp_path, files=OURS)))
    assert set(result["mode"]) == set(run(FakeHost(tmp_path, files=OURS))["mode"])
    assert set(result["after"]) == set(run(FakeHost(tmp_path, files=OURS))["after"])
    assert host.done == []


VARIES = (
    'whether ib_core takes netns_mode="%s" depends on its kernel: kstrtobool() knows t and f since Linux 5.17, e and d '
    "later. Write 0 or 1"
)


# value, what is said of it
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("false", VARIES % "false"),
        ("Enabled", VARIES % "Enabled"),
        ("2", 'ib_core does not load with netns_mode="2", which is not a boolean'),
    ],
)
def test_a_value_that_not_every_kernel_takes(tmp_path: Path, value: str, why: str) -> None:
    result = run(FakeHost(tmp_path, files=OURS, cmdline=f"ib_core.netns_mode={value}", spaces=[POD]))
    assert (result["mode"]["next_boot"], result["reboot_would_help"]) == (None, None)
    assert result["reboot_reason"].endswith(f". The mode after the next boot is not known: {why}.")
    assert result["resources"][0]["status"] == "drift"
    assert result["conflicts"] == []


def test_the_cause_changes_with_what_a_reboot_acts_on(tmp_path: Path) -> None:
    base = run(FakeHost(tmp_path, files=OURS, spaces=[POD]))["reboot_cause"]
    assert run(FakeHost(tmp_path, files=OURS, spaces=[OTHER]))["reboot_cause"] == base
    assert run(FakeHost(tmp_path, files=OURS, spaces=[POD], cmdline="ib_core.netns_mode=1"))["reboot_cause"] != base
    assert run(FakeHost(tmp_path / "other", spaces=[POD]), persistent=False)["reboot_cause"] != base


def test_the_cause_changes_with_the_value_that_is_configured(tmp_path: Path) -> None:
    def cause(value: str) -> str:
        host = FakeHost(tmp_path / value, files={"/etc/modprobe.d/a.conf": f"options ib_core netns_mode={value}\n"})
        return str(run(host, persistent=False, runtime="never")["reboot_cause"])

    assert cause("0") != cause("1")


def test_the_cause_changes_with_the_initramfs(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, files=OURS, spaces=[POD])
    host.image = str(tmp_path / "initrd.img")
    causes = [run(host)["reboot_cause"]]
    for content in ("old", "newer"):
        Path(host.image).write_text(content)
        causes.append(run(host)["reboot_cause"])
    assert len(set(causes)) == 3
    assert run(host)["reboot_cause"] == causes[-1]


@pytest.mark.parametrize(("mode", "value"), [("exclusive", "0"), ("shared", "1")])
def test_what_is_written_and_where_it_is_found_again(tmp_path: Path, mode: str, value: str) -> None:
    host = FakeHost(tmp_path, live=mode)
    run(host, netns_mode=mode)
    assert f"options ib_core netns_mode={value}\n" in (tmp_path / DROP_IN[1:]).read_text()
    assert run(host, netns_mode=mode)["mode"]["configured"] == {"value": mode, "path": DROP_IN, "line": 2}


def test_a_mode_that_can_be_read_is_enough(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, files=OURS)
    host.has_rdma = False
    assert run(host)["actions"] == [SWITCH]


@pytest.mark.parametrize(
    ("loaded", "how", "available"),
    [(True, None, True), (False, "builtin", True), (False, "module", True), (False, None, False)],
)
def test_a_kernel_has_rdma_if_it_is_loaded_or_can_be(
    monkeypatch: pytest.MonkeyPatch, loaded: bool, how: str | None, available: bool
) -> None:
    monkeypatch.setattr(kernel, "available", lambda: kernel.Availability(loaded, how, None))
    assert Host().available() is available


def test_the_sources_of_a_host_are_those_of_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "sources", lambda *arguments: arguments)
    # The file that sets the mode, and the record of a reboot, must survive one.
    kept = ("/etc/modprobe.d", "/var/lib/rdmaops")
    assert Host().sources() == ("/", "ib_core", kept)
    assert Host("/image").sources() == ("/image", "ib_core", kept)


def test_an_incomplete_list_of_namespaces_is_told_and_the_kernel_is_asked(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, files=OURS)
    host.unreadable = [Unreadable("/proc/7/fd", "Permission denied")]
    result = run(host)
    assert result["actions"] == [SWITCH]
    assert result["problems"][0].startswith(
        "Could not look for network namespaces everywhere: /proc/7/fd: Permission denied. This needs root"
    )
