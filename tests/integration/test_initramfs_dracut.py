# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""dracut: what the reader says of its images, against lsinitrd; rebuilding with hostonly on and off."""

from __future__ import annotations

import re
import shutil
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents, forced
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.inspect import inspect
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import (
    DRACUT_SMALL,
    copy_of,
    inside,
    kernel,
    mounted,
)

OPTION = "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf"


class Root:
    """One root directory, used by all tests here, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = kernel(path)
        self.image = f"/boot/initrd.img-{self.version}"
        # As dracut's package has made it: the tests rebuild the other one.
        self.package_image = f"/boot/package.img-{self.version}"
        self.drop_in = path / rebuild.DRACUT_DROP_IN.lstrip("/")
        self.builds = 0

    def configure(self, *, hostonly: bool, force: str = "", compress: str = "zstd -1 -T0", loads: str = "") -> None:
        # A small image: ten seconds instead of sixty.
        (self.path / "etc/dracut.conf.d/test.conf").write_text(
            f'{DRACUT_SMALL}hostonly="{"yes" if hostonly else "no"}"\nhostonly_cmdline="no"\n'
            f'compress="{compress}"\nforce_drivers+=" {force} "\n'
        )
        self.drop_in.unlink(missing_ok=True)
        (self.path / OPTION.lstrip("/")).write_text("options ib_core netns_mode=0\n")
        modules_load = self.path / "etc/modules-load.d/test.conf"
        modules_load.unlink(missing_ok=True)
        if loads:
            modules_load.write_text(loads)

    def run(self, argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        self.builds += "dracut" in argv
        return rebuild.run(mounted(self.path, argv), timeout)

    def rebuild(self) -> Contents:
        self.builds = 0
        return rebuild.rebuild(self.image, self.version, str(self.path), self.run, fresh)

    def look(self, image: str) -> Contents:
        return inspect([image], root=str(self.path), cache=None)


def fresh(contents: Contents) -> str | None:
    return None if OPTION in contents.modprobe else "it lacks the option"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = Root(copy_of("dracut", tmp_path_factory.mktemp("root") / "debian"))
    shutil.copy2(root.path / root.image.lstrip("/"), root.path / root.package_image.lstrip("/"))
    return root


def agree(root: Root, image: str = "") -> Contents:
    """The reader and lsinitrd say the same of an image, of the one in place by default."""
    image = image or root.image
    result = root.look(image)
    assert result.kind == "dracut"
    assert list(result.versions) == [root.version]
    lines = inside(root.path, "lsinitrd", image).split("\n")
    # "-rw-r--r-- 1 root root 12345 Nov 21 08:50 usr/lib/...", or "... -> target"
    paths = [line.split(" -> ")[0].split()[-1] for line in lines if re.match(r"[-l][rwxsStT-]{9} ", line)]
    modules = {Path(path).name.split(".")[0] for path in paths if re.search(r"\.ko(\.\w+)?$", path)}
    assert result.modules == sorted(name.replace("-", "_") for name in modules)
    expected = sorted("/" + path for path in paths if re.search(r"/modprobe\.d/[^/]+\.conf$", path))
    assert sorted(result.modprobe) == expected
    for path, text in result.modprobe.items():
        assert text == inside(root.path, "lsinitrd", "-f", path.lstrip("/"), image)
    return result


def test_the_image_of_the_package(root: Root) -> None:
    result = agree(root, root.package_image)
    assert result.forced == []
    assert forced(result, "rd.driver.pre=ext4") == forced(result, "quiet rd.driver.pre=ext4 ro") != []


def test_generic_image_gets_a_drop_in_once(root: Root) -> None:
    root.configure(hostonly=False, force="mlx5_ib")
    result = root.rebuild()
    assert result == agree(root)
    assert root.builds == 2
    assert {"ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"} <= set(result.forced)
    assert "install_items" in root.drop_in.read_text()
    assert OPTION in root.rebuild().modprobe
    assert root.builds == 1
    assert not list((root.path / "var/tmp").iterdir())


def test_hostonly_image_needs_none(root: Root) -> None:
    root.configure(hostonly=True, loads="ib_uverbs\n")
    result = root.rebuild()
    assert result == agree(root)
    assert root.builds == 1
    assert not root.drop_in.exists()
    assert result.forced == ["ib_core", "ib_uverbs"]


def test_the_drop_in_outlives_the_option(root: Root) -> None:
    """Where our files are gone, the pattern matches nothing: dracut says so and still makes an image."""
    root.configure(hostonly=False)
    (root.path / OPTION.lstrip("/")).unlink()
    root.drop_in.write_text(f'install_items+=" {rebuild.DRACUT_ITEMS} "\n')
    result = rebuild.rebuild(root.image, root.version, str(root.path), root.run)
    assert OPTION not in result.modprobe
    assert result == agree(root)


@pytest.mark.long
@pytest.mark.parametrize("hostonly", [True, False])
@pytest.mark.parametrize("compress", ["gzip", "bzip2", "lzma", "xz", "lzo", "lz4", "zstd", "cat"])
def test_every_compressor(root: Root, compress: str, hostonly: bool) -> None:
    root.configure(hostonly=hostonly, force="ib_core", compress=compress)
    result = root.rebuild()
    assert result == agree(root)
    assert result.forced == ["ib_core"]


@pytest.mark.long
@pytest.mark.parametrize("hostonly", [True, False])
def test_defaults_with_microcode(root: Root, hostonly: bool) -> None:
    root.configure(hostonly=hostonly)
    (root.path / "etc/dracut.conf.d/test.conf").write_text(f'hostonly="{"yes" if hostonly else "no"}"\n')
    result = root.rebuild()
    assert result == agree(root)
