# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files in modprobe.d whose owner is known by the name: what is said of a conflict with them."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.owner import owner
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.plan import plan
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.plan_model import ConflictError, Plan
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

OURS = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"
OPERATOR = "/etc/modprobe.d/sriov_network_operator_modules_config.conf"
# As the operator writes it (TestSetRDMASubsystem of its network package).
WRITTEN = "# This file is managed by sriov-network-operator do not edit.\noptions ib_core netns_mode=1\n"
LET_GO = (
    f"{OPERATOR} belongs to sriov-network-operator: take spec.rdmaMode out of the SriovNetworkPoolConfig for this node, "
    "upon which the operator removes the file"
)


def make(root: Path, path: str, text: str, on_conflict: str, ours: str = OURS) -> Plan:
    write_tree(root, {path: text})
    return plan(str(root), "ib_core", {"netns_mode": "0"}, ours, "present", on_conflict)


def refused(root: Path, path: str, text: str, on_conflict: str, ours: str = OURS) -> str:
    message = message_of(ConflictError, make, root, path, text, on_conflict, ours)
    assert (root / path[1:]).read_text() == text
    return message


def test_whose_file_it_is() -> None:
    names = {name: owner("/etc/modprobe.d/" + name) for name in ("tuned.conf", "mlnx.conf", "ib_core.conf")}
    assert {name: who and who.rewrites for name, who in names.items()} == {
        "tuned.conf": True,
        "mlnx.conf": False,
        "ib_core.conf": None,
    }


def test_the_owner_is_named_and_what_to_do_there(tmp_path: Path) -> None:
    message = refused(tmp_path, OPERATOR, WRITTEN, "fail")
    assert (
        f"Nothing has been changed. {LET_GO}. With on_conflict=warn they stay ({OURS} comes later and wins)." in message
    )
    assert "take_over" not in message
    assert make(tmp_path, OPERATOR, WRITTEN, "warn").warnings[0].endswith(f"; {OURS} comes later and wins ({LET_GO})")


def test_what_its_owner_writes_again_is_not_taken_over(tmp_path: Path) -> None:
    message = refused(tmp_path, OPERATOR, WRITTEN, "take_over")
    assert (
        "sriov-network-operator would write this again after on_conflict=take_over. Nothing has been changed. "
        in message
    )
    assert message.endswith("Rather take spec.rdmaMode out of the SriovNetworkPoolConfig for this node, upon which the "
                            "operator removes the file.")  # fmt: skip


def test_the_file_of_a_package_is_taken_over(tmp_path: Path) -> None:
    path = "/etc/modprobe.d/mlnx.conf"
    text = "options ib_core netns_mode=1 recv_queue_size=1024\n"
    message = refused(tmp_path, path, text, "fail")
    assert f"{path} belongs to MLNX_OFED or DOCA-OFED: change the line there; an update of the package" in message
    assert "set on_conflict to take_over" in message
    assert make(tmp_path, path, text, "take_over").writes[path] == "options ib_core recv_queue_size=1024\n"


def test_nothing_is_said_of_a_file_that_nobody_is_known_for(tmp_path: Path) -> None:
    assert "belongs to" not in refused(tmp_path, "/etc/modprobe.d/ib_core.conf", WRITTEN, "fail")


def test_the_owner_wins_by_its_name(tmp_path: Path) -> None:
    """The file comes before ours, unless ours has been moved."""
    message = refused(tmp_path, OPERATOR, WRITTEN, "warn", "/etc/modprobe.d/ib_core.conf")
    assert message.endswith(f"{LET_GO}.")
