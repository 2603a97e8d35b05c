# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in place of one whose mode is managed."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import prediction
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.host import RDMA_DROP_IN as DROP_IN
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._netns.survey import Namespace, Survey
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.manage import manage
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._rdma_mode.model import Host, ModeError
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

IMAGE = "/boot/initrd.img-7.2.12"
GRUB = "/boot/grub/grub.cfg"

OURS = {
    DROP_IN: "# Managed by Ansible (rdmaops.gpu_fabric). Local changes will be overwritten.\noptions ib_core netns_mode=0\n"
}


class FakeHost(Host):
    """A host that remembers what was done to it."""

    def __init__(
        self,
        root: Path,
        live: str | None = "shared",
        files: dict[str, str] | None = None,
        cmdline: str | None = "root=/dev/vda2 quiet",
        forced: bool = False,
        contained: bool = False,
        spaces: t.Sequence[Namespace] = (),
    ) -> None:
        super().__init__(str(root))
        write_tree(root, files or {})
        self.mode = live
        self.cmdline = cmdline
        modules = ["ib_core"] if contained or forced else []
        self.contents = Contents(IMAGE, "initramfs-tools", modules, ["ib_core"] if forced else [], {})
        self.contents = self.contents._replace(versions={"7.2.12": [IMAGE]})
        self.spaces = list(spaces)
        self.as_root = True
        self.has_rdma = True
        self.unreadable: list[t.Any] = []
        self.done: list[str] = []
        self.switch_error: OSError | None = None
        self.space_on_boot = True
        self.open: list[dict[str, t.Any]] | OSError = []
        self.remedy: str | None = None
        self.image = IMAGE

    def is_root(self) -> bool:
        return self.as_root

    def boot_id(self) -> str:
        return "0b5e3a4e"

    def available(self) -> bool:
        return self.has_rdma

    def live(self) -> str | None:
        return self.mode

    def sources(self) -> prediction.Sources:
        problem = None if self.cmdline is not None else f"Reading {GRUB}: no menuentry found"
        parts = [(GRUB, 128, self.cmdline)] if self.cmdline else []
        entry = BootEntry("grub", GRUB, 128, self.cmdline, title="Debian", parts=parts, problem=problem)
        entry = entry._replace(kernel_version="7.2.12", initrd=[self.image], remedy=self.remedy)
        return prediction.Sources("/", entry, "quiet", self.contents, True, False, False, [problem] if problem else [])

    def other_namespaces(self) -> Survey:
        return Survey(list(self.spaces), self.unreadable)

    def users(self) -> list[dict[str, t.Any]]:
        if isinstance(self.open, OSError):
            raise self.open
        return self.open

    def switch(self, mode: str) -> None:
        if self.switch_error:
            raise self.switch_error
        self.done.append(f"switch {mode}")
        self.mode = mode

    def preflight(self, image: str, kernel: str) -> None:
        if not self.space_on_boot:
            raise ModeError("no space on /boot")

    def rebuild(self, image: str, kernel: str, verify: t.Callable[[t.Any], str | None]) -> None:
        self.done.append(f"rebuild {image} {kernel}")
        directory = Path(self.root, "etc/modprobe.d")
        files = {"/etc/modprobe.d/" + path.name: path.read_text() for path in directory.iterdir()}
        self.contents = self.contents._replace(modprobe=files)
        assert verify(self.contents) is None


def run(host: FakeHost, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
    defaults = {"runtime": "auto", "initramfs": "rebuild", "on_conflict": "fail", "on_absent": "fail"}
    return manage(
        {"netns_mode": "exclusive", "persistent": True, "state": "present", **defaults, **options}, check_mode, host
    )
