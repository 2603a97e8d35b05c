# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image loads: lists of modules, dependencies and the kernel command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import contents as rules
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import evaluate
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    DIRECTORY,
    MODULES,
    TREE,
    Member,
    cpio,
    link,
    read,
    text,
)

DRACUT = Member("usr/lib/dracut", mode=DIRECTORY)
ARCH = text("conf/arch.conf", "")
MODULES_LOAD = Member("usr/lib/systemd/systemd-modules-load")
DROP_IN = "usr/lib/modules-load.d/x.conf"
MLX5 = text("conf/modules", "mlx5_core\n")
FORCED_CASES = [
    # members beside the tree, kind, forced
    ([ARCH], "initramfs-tools", ""),
    ([ARCH, text("conf/modules", "  # ib_core\nnot_there\n")], "initramfs-tools", ""),
    ([DRACUT], "dracut", ""),
    ([DRACUT, text("etc/cmdline.d/20-force_drivers.conf", "rd.driver.pre=ib_uverbs\n")], "dracut", "ib_core ib_uverbs"),
    ([DRACUT, text("etc/cmdline", "quiet rd.driver.pre=a,ib-core")], "dracut", "ib_core"),
    ([DRACUT, text(DROP_IN, "ib_core\n")], "dracut", ""),
    ([DRACUT, MODULES_LOAD, text(DROP_IN, "; no\n# no\nib_core\n")], "dracut", "ib_core"),
    ([MODULES_LOAD, text(DROP_IN, "ib_core\n"), link("etc/modules-load.d/x.conf", "/dev/null")], "unknown", ""),
    ([MODULES_LOAD, text(DROP_IN, "ib_core option\n")], "unknown", ""),
    ([Member("init_functions"), text("config", 'EARLYHOOKS="udev"\nMODULES="ib_core"\n')], "mkinitcpio", "ib_core"),
    (
        [ARCH, MLX5, text(f"{MODULES}/modules.softdep", "softdep mlx5_core post: mlx5_ib\n")],
        "initramfs-tools",
        "ib_core ib_uverbs mlx5_core mlx5_ib",
    ),
    (
        [ARCH, MLX5, text("etc/modprobe.d/s.conf", "softdep mlx5_core pre: ib_core\n")],
        "initramfs-tools",
        "ib_core mlx5_core",
    ),
]


@pytest.mark.parametrize(("members", "kind", "names"), FORCED_CASES)
def test_forced(tmp_path: Path, members: list[Member], kind: str, names: str) -> None:
    contents = read(tmp_path, cpio(*TREE, *members))
    assert (contents.kind, contents.forced, contents.arguments) == (kind, names.split(), {})


def test_forced_with_an_argument(tmp_path: Path) -> None:
    contents = read(tmp_path, cpio(*TREE, ARCH, text("conf/modules", "ib-core netns_mode=1\n")))
    assert (contents.kind, contents.forced) == ("initramfs-tools", ["ib_core"])
    assert contents.arguments == {"ib_core": "netns_mode=1"}


CMDLINE_CASES = [
    # kind, command line, modules
    ("dracut", "root=/dev/sda rd.driver.pre=mlx5-ib,ib_core quiet", ["mlx5_ib", "ib_core"]),
    ("dracut", "rd.modules_load=a modules_load=b", ["a", "b"]),
    ("dracut", "quiet -- rd.driver.pre=a", []),
    ("dracut", '"rd.driver.pre=a"', ["a"]),
    ("initramfs-tools", "rd.driver.pre=a modules_load=b", []),
    ("dracut", "", []),
]


@pytest.mark.parametrize(("kind", "cmdline", "modules"), CMDLINE_CASES)
def test_from_cmdline(kind: str, cmdline: str, modules: list[str]) -> None:
    assert rules.from_cmdline(kind, cmdline) == modules


def test_forced_by_the_command_line(tmp_path: Path) -> None:
    contents = read(tmp_path, cpio(*TREE, DRACUT))
    assert rules.forced(contents) == []
    assert rules.forced(contents, "rd.driver.pre=ib-uverbs,none") == ["ib_core", "ib_uverbs"]


def test_closure_of_a_loop() -> None:
    assert rules.closure({"a": ["b"], "b": ["a", "c"]}, ["a"]) == ["a", "b", "c"]


@given(st.text(), st.text())
def test_any_lists(dep: str, softdep: str) -> None:
    assert isinstance(evaluate.requirements(dep, softdep), dict)
    assert isinstance(evaluate.load_lines(dep), list)
    assert isinstance(rules.from_cmdline("dracut", dep), list)


@given(st.dictionaries(st.sampled_from(["a", "a/b", "c"]), st.sampled_from(["/a", "../c", "b", "a/b", "."])), st.text())
def test_any_links(links: dict[str, str], name: str) -> None:
    assert isinstance(evaluate.resolve(links, name), (str, type(None)))
    assert isinstance(evaluate.resolve(links, "a/b/c"), (str, type(None)))
