# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that is stopped, and a machine whose power is cut, at the worst moments: the next run converges."""

from __future__ import annotations

import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.faults import machine
from ansible_collections.rdmaops.gpu_fabric.tests.support import faults, site

pytestmark = pytest.mark.long

CALLBACKS = Path(__file__).resolve().parent / "callback"
PACKAGE = "perftest"
# A run that never ends would hide behind a large count.
MOST_TASKS = 60


def stopped_after(count: int, log: Path) -> int:
    """Run role gpu_node until a task has ended, kill the run there, and return how many tasks had ended."""
    log.unlink(missing_ok=True)
    environment = site.environment(
        ANSIBLE_CALLBACK_PLUGINS=str(CALLBACKS),
        ANSIBLE_CALLBACKS_ENABLED="stop_after",
        STOP_AFTER=str(count),
        STOP_LOG=str(log),
    )
    subprocess.run(
        site.command("rdmaops.gpu_fabric.nodes", machine.NODE),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=1200,
        check=False,
        start_new_session=True,
    )
    return len(log.read_text(encoding="utf-8").splitlines())


def converged(node: machine.Machine) -> dict[str, str]:
    """Return everything that the role decides about, as the tools of the system see it."""
    return {
        "mode": node.mode(),
        "options": node.shell("modprobe --showconfig | grep '^options ib_core'"),
        "image": node.drop_in_of_image(),
        "files": node.shell("cat /etc/systemd/system/containerd.service.d/*rdmaops*"),
        "half": node.shell("find /etc /boot /var/lib -name '*.rdmaops-new' -o -name '*.rdmaops-unfinished'"),
        "package": node.shell(f"dpkg-query -W -f '${{db:Status-Status}}' {PACKAGE}"),
    }


def test_a_run_stopped_after_any_task_converges(
    node: machine.Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node.force_ib_core_into_the_image()
    node.keep_image()
    node.reset(PACKAGE)
    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    expected = converged(node)
    assert expected["mode"] == "exclusive"
    assert "netns_mode=0" in expected["image"]
    assert expected["half"] == ""

    count = 0
    with faults.tried("run stopped", "gpu_node") as tally:
        while True:
            count += 1
            assert count < MOST_TASKS
            node.reset(PACKAGE)
            done = stopped_after(count, tmp_path / "tasks")
            if done < count:
                break
            name = (tmp_path / "tasks").read_text(encoding="utf-8").splitlines()[-1]
            with tally.one(f"after task {count}: {name}"):
                assert node.half_written() == []
                again = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
                assert again.rc == 0, again.messages()
                assert converged(node) == expected
                with capsys.disabled():
                    print(f"  stopped after task {count}: {name}: converged", flush=True)
    third = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
    assert (third.rc, third.changed()) == (0, 0), third.output
    with capsys.disabled():
        print(f"  gpu_node was stopped after each of its {count - 1} tasks", flush=True)


def in_background(book: str, node: machine.Machine, **variables: t.Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        site.command(book, node.name, **variables),
        env=site.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.fault("power cut")
def test_power_cut_during_the_rebuild_of_the_initramfs(node: machine.Machine) -> None:
    node.force_ib_core_into_the_image()
    node.reset()
    run = in_background("rdmaops.gpu_fabric.nodes", node)
    try:
        node.wait_for("pgrep -f mkinitramfs", limit=300)
        time.sleep(3)
        node.cut_and_boot()
    finally:
        run.kill()
        run.communicate()
    # The boot went by whatever image was in place; it was whole.
    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    assert "netns_mode=0" in node.drop_in_of_image()
    assert node.half_written() == []
    again = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
    assert (again.rc, again.changed()) == (0, 0)


@pytest.mark.fault("ssh cut")
def test_ssh_cut_during_the_rebuild_of_the_initramfs(node: machine.Machine) -> None:
    """The module outlives its connection: a run at once finds it still at work, and says so; one after it converges."""
    node.force_ib_core_into_the_image()
    node.reset()
    run = in_background("rdmaops.gpu_fabric.nodes", node)
    try:
        node.wait_for("pgrep -f '[m]kinitramfs'", limit=300)
        # Every connection to the node, this one's too, and nothing that was started by them.
        node.shell("systemd-run --quiet pkill -KILL -x sshd-session", check=False)
        output = run.communicate(timeout=300)[0]
    finally:
        run.kill()
        run.communicate()
    cut = site.understood(run.returncode, output)
    assert (cut.rc, cut.stats[node.name]["unreachable"]) == (4, 1), output
    at_once = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
    if at_once.rc != 0:
        assert "another rebuild is running; wait for it" in at_once.messages(), at_once.output
        node.wait_for("! pgrep -f '[m]kinitramfs'", limit=600)
        after = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
        assert after.rc == 0, after.messages()
    assert "netns_mode=0" in node.drop_in_of_image()
    assert node.half_written() == []
    last = site.playbook("rdmaops.gpu_fabric.nodes", node.name)
    assert (last.rc, last.changed()) == (0, 0), last.output


@pytest.mark.fault("power cut")
def test_power_cut_during_the_reboot(node: machine.Machine) -> None:
    node.reset()
    node.shell("ip netns add pod")
    assert site.playbook("rdmaops.gpu_fabric.nodes", node.name).rc == 0
    assert node.mode() == "shared"
    boot = node.boot_id()
    run = in_background("rdmaops.gpu_fabric.reboot", node, node_maintenance_reboot_ok=True)
    try:
        node.wait_for("test -e /var/lib/rdmaops/reboot.yml && systemctl is-system-running | grep stopping", limit=300)
        node.cut_and_boot()
        run.communicate(timeout=900)
    finally:
        run.kill()
        run.communicate()
    final = site.playbook("rdmaops.gpu_fabric.site", node.name, node_maintenance_reboot_ok=True)
    assert final.rc == 0, final.messages()
    assert node.boot_id() != boot
    assert node.mode() == "exclusive"
    assert site.playbook("rdmaops.gpu_fabric.site", node.name).changed() == 0
