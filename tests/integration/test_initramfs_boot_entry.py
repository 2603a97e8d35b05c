# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default boot entry, from configurations that the real GRUB tools write and check."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _boot_grub
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot import Machine, default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot_files import BootError
from ansible_collections.rdmaops.gpu_fabric.tests.support.debian_root import copy_of, inside, kernel

DEFAULTS = """
GRUB_DEFAULT={default}
GRUB_DISTRIBUTOR=Debian
GRUB_DISABLE_LINUX_UUID=true
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX={arguments}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = copy_of("initramfs-tools", tmp_path_factory.mktemp("root") / "debian")
    (path / "boot/grub").mkdir(exist_ok=True)
    # It wants a font and a picture that a root directory without a boot loader does not have.
    (path / "etc/grub.d/05_debian_theme").chmod(0o644)
    for name in ("vmlinuz", "initrd.img"):
        (path / f"boot/{name}-6.1.0-older").write_bytes(b"x")
    return path


def configure(root: Path, default: str = "0", arguments: str = '""') -> None:
    (root / "etc/default/grub").write_text(DEFAULTS.format(default=default, arguments=arguments))
    inside(root, "grub-mkconfig", "-o", "/boot/grub/grub.cfg")
    inside(root, "grub-script-check", "/boot/grub/grub.cfg")


def test_first_entry(root: Path) -> None:
    configure(root, arguments='"ib_core.netns_mode=1 console=ttyS0"')
    found = default_entry(str(root), Machine())
    version = kernel(root)
    assert (found.kind, found.kernel_version, found.problem) == ("grub", version, None)
    assert found.cmdline is not None
    assert found.cmdline.split()[-3:] == ["ib_core.netns_mode=1", "console=ttyS0", "quiet"]
    assert (found.kernel, list(found.initrd)) == (f"/boot/vmlinuz-{version}", [f"/boot/initrd.img-{version}"])
    path, line = found.where("ib_core.netns_mode=1")
    assert (path, line) == ("/boot/grub/grub.cfg", found.line)
    text = (root / "boot/grub/grub.cfg").read_text().splitlines()
    assert text[(line or 0) - 1].split()[:2] == ["linux", f"/boot/vmlinuz-{version}"]


def test_saved_and_next_entry(root: Path) -> None:
    configure(root, default="saved")
    text = (root / "boot/grub/grub.cfg").read_text()
    (submenu,) = [line.split("'")[3] for line in text.splitlines() if line.startswith("submenu")]
    (older,) = [
        line.split("'")[3] for line in text.splitlines() if "6.1.0-older-advanced" in line and "menuentry" in line
    ]

    def version() -> str | None:
        return default_entry(str(root), Machine()).kernel_version

    newest = kernel(root)
    (root / "boot/grub/grubenv").unlink(missing_ok=True)
    assert version() == newest
    inside(root, "grub-set-default", f"{submenu}>{older}")
    assert version() == "6.1.0-older"
    inside(root, "grub-set-default", "0")
    assert version() == newest
    inside(root, "grub-reboot", f"{submenu}>{older}")
    assert version() == "6.1.0-older"
    inside(root, "grub-editenv", "/boot/grub/grubenv", "unset", "next_entry")
    assert version() == newest


@pytest.mark.parametrize("value", ["plain", "a b  c", "back\\slash", "two\nlines", "#", "x=y=z", "a\\", "'\"$x`", "ä€"])
def test_grubenv(root: Path, value: str) -> None:
    (root / "tmp/env").unlink(missing_ok=True)
    inside(root, "grub-editenv", "/tmp/env", "create")
    inside(root, "grub-editenv", "/tmp/env", "set", "first=1", f"odd={value}", "last=2")
    found = _boot_grub.read_grubenv((root / "tmp/env").read_text())
    assert {name: text for name, (text, _line) in found.items()} == {"first": "1", "odd": value, "last": "2"}


WORDS = st.sampled_from(
    ["menuentry", "a", "'b c'", '"$x y"', "${y}", "$z", "{", "}", ";", "\n", "if", "then", "fi", "else", "elif", "true",
     "[", "]", "set", "x=1", "function", "while", "until", "do", "done", "for", "in", "#c", "\\;", "a{b", "''"]
)  # fmt: skip


def test_scripts_that_grub_accepts_are_understood(root: Path, request: pytest.FixtureRequest) -> None:
    """grub-script-check is GRUB's own parser: what it takes, and we do not, would be a machine without an answer."""
    long = request.config.getoption("--long")
    texts: list[str] = []

    @settings(max_examples=4000 if long else 400, deadline=None, database=None, derandomize=not long)
    @given(st.lists(WORDS, max_size=14).map(" ".join))
    def collect(text: str) -> None:
        texts.append(text)

    collect()
    for number, text in enumerate(texts):
        (root / "tmp" / f"s{number}").write_text(text + "\n")
    script = (
        f"cd /tmp; for n in $(seq 0 {len(texts) - 1}); do grub-script-check s$n >/dev/null 2>&1 && echo $n; done; true"
    )
    accepted = [texts[int(number)] for number in inside(root, "sh", "-c", script).split()]
    assert len(accepted) > 20
    refused = []
    for text in accepted:
        try:
            _boot_grub.parse(text, "grub.cfg")
        except BootError as exc:
            refused.append((text, str(exc)))
    print(f"{len(accepted)} of {len(texts)} scripts are good ones")
    assert refused == []
