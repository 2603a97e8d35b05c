# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One look for several modules: when it is quiet, they would have had nothing to do or to tell."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import compare, owned_files
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode import manage as rdma_mode
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

Json = t.Dict[str, t.Any]


def result(status: str = "in_sync", **more: t.Any) -> Json:
    return {"actions": [], "resources": [{"name": "netns_mode", "status": status}], **more}


# what a module has found, and why it has to run itself
FOUND: list[tuple[Json, list[str]]] = [
    (result(), []),
    (result(warnings=[]), []),
    (result("drift"), ["netns_mode is drift"]),
    (result("unknown"), ["netns_mode is unknown"]),
    (result(warnings=["line 3 of mlx5.conf says otherwise"]), ["line 3 of mlx5.conf says otherwise"]),
    (result("drift", actions=["Write a file", "Rebuild it"]), ["Write a file", "Rebuild it"]),
]


@pytest.mark.parametrize(("result", "why"), FOUND)
def test_what_is_quiet(result: Json, why: list[str]) -> None:
    results, differs = compare.compare({"one": [{}, {}]}, {"one": lambda _params: result})
    assert (results, differs) == ({"one": [result, result]}, [f"one: {text}" for text in why * 2])


@pytest.mark.parametrize("error", [FabricError("Reading it: no"), PermissionError("no")], ids=["ours", "system"])
def test_what_cannot_be_looked_at_differs(error: Exception) -> None:
    def look(params: t.Mapping[str, t.Any]) -> Json:
        if params["broken"]:
            raise error
        return result()

    results, differs = compare.compare({"one": [{"broken": True}, {"broken": False}]}, {"one": look})
    assert (results, differs) == ({"one": [result()]}, [f"one: {error}"])


# options of a module, what is told
WRONG: list[tuple[str, Json, str]] = [
    ("rdma_system", {"netns_mode": "private"}, "value of netns_mode must be one of: exclusive, shared, got: private"),
    ("rdma_system", {}, "missing required arguments: netns_mode"),
    ("owned_files", {"files": [{"path": "etc/x"}]}, "Writing etc/x: the path must be absolute"),
    ("modprobe_options", {"name": "a b", "options": {"c": 1}}, "a b"),
    ("modprobe_options", {"name": "a", "options": {"c": 1}, "force": True}, "force"),
]


@pytest.mark.parametrize(("name", "params", "text"), WRONG)
def test_wrong_options_are_reported_as_the_module_reports_them(name: str, params: Json, text: str) -> None:
    results, (said,) = compare.compare({name: [params]})
    assert results == {name: []}
    assert said.startswith(f"{name}: ")
    assert text in said


def test_options_come_with_their_defaults() -> None:
    """As in a process of the module's own, which is not to be told apart."""
    result = compare.checked(rdma_mode.ARGUMENTS, {"netns_mode": "shared", "persistent": "no"})
    assert result["persistent"] is False
    assert (result["runtime"], result["on_conflict"], result["on_absent"]) == ("auto", "fail", "fail")
    files = compare.checked(owned_files.ARGUMENTS, {"files": [{"path": "/a"}]})["files"]
    assert files == [{"path": "/a", "content": "", "mode": "0644"}]


def test_drill(tmp_path: Path) -> None:
    """Virgin, done, done again, and spoilt: each time what the modules themselves say in check mode."""
    options = {"name": "mlx5_core", "options": {"prof_sel": 2}, "root": str(tmp_path)}
    files = {"files": [{"path": str(tmp_path / "etc/one.conf"), "content": "[Service]\n"}]}
    wishes = {"owned_files": [files], "modprobe_options": [options]}
    drop_in = tmp_path / "etc/modprobe.d/zz-rdmaops-mlx5_core.conf"
    drop_in.parent.mkdir(parents=True)
    grub = "menuentry 'Linux' {\n linux /boot/vmlinuz-7.2.12 root=/dev/vda1 ro\n}\n"
    write_tree(tmp_path, {"boot/vmlinuz-7.2.12": "a kernel", "boot/grub/grub.cfg": grub})

    def modules(check: bool) -> list[Json]:
        decision, result = owned_files.decide(compare.checked(owned_files.ARGUMENTS, files)["files"])
        if not check:
            decision.carry_out()
        wanted = manage.check(compare.checked(manage.ARGUMENTS, options))
        host = manage.Host(wanted.root)
        return [{**decision.result(), **result}, manage.manage(wanted, check, host, [])]

    def agreed() -> list[str]:
        asked, differs = compare.compare(wishes)
        own = modules(check=True)
        assert [row for results in asked.values() for row in results] == own
        assert bool(differs) == any(row["changed"] for row in own)
        return differs

    fresh = ["owned_files: Write %s" % (tmp_path / "etc/one.conf"), f"modprobe_options: Write {drop_in}"]
    assert [text.replace("/etc/modprobe.d", str(drop_in.parent)) for text in agreed()] == fresh
    assert not drop_in.exists(), "a look has written something"
    modules(check=False)
    assert agreed() == []
    modules(check=False)
    assert agreed() == []
    # What cannot be told any more is not in sync: the module itself is to say so.
    (tmp_path / "boot/grub/grub.cfg").unlink()
    assert compare.compare(wishes)[1] == ["modprobe_options: mlx5_core.prof_sel is unknown"]
    drop_in.write_text("options mlx5_core prof_sel=3\n")
    (tmp_path / "etc/one.conf").write_text("somebody else's\n")
    differs = compare.compare(wishes)[1]
    assert len(differs) == 2
    assert "was not written by this collection" in differs[0]
