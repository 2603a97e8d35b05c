# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose initramfs is rebuilt, and the images before and after."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.rebuild import rebuild
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree
from ansible_collections.rdmaops.gpu_fabric.tests.unit.plugins.module_utils._initramfs.images import (
    DIRECTORY,
    VERSION,
    Member,
    cpio,
    text,
)

IMAGE = f"/boot/initrd.img-{VERSION}"


CONF = "etc/modprobe.d/zz-rdmaops-ib_core.conf"


MODULE = text(f"lib/modules/{VERSION}/ib_core.ko", "")


OLD = cpio(MODULE)


NEW = cpio(MODULE, text(CONF, "options ib_core netns_mode=0\n"))


# What shows which tool created an image.
DRACUT = Member("usr/lib/dracut", mode=DIRECTORY)


INITRAMFS_TOOLS = text("conf/initramfs.conf", "")


Runner = t.Callable[[t.Sequence[str], float], t.Tuple[int, str, str]]


class Host:
    """A root directory, and the commands that were run in it."""

    def __init__(self, root: Path, name: str = "mkinitramfs") -> None:
        self.root = root
        self.name = name
        self.calls: list[list[str]] = []
        self.images: list[bytes] = [NEW]
        self.result = (0, "", "")
        self.hook = (0, "", "")
        self.program(name)
        self.file(f"lib/modules/{VERSION}/modules.dep", "")
        self.file(IMAGE, OLD)
        for directory in ("var/tmp", "etc/dracut.conf.d"):
            (root / directory).mkdir(parents=True)

    def file(self, path: str, content: str | bytes) -> None:
        write_tree(self.root, {path: content})

    def program(self, name: str) -> None:
        self.file(f"usr/sbin/{name}", "")
        (self.root / "usr/sbin" / name).chmod(0o755)

    def run(self, argv: t.Sequence[str], timeout: float) -> tuple[int, str, str]:
        assert timeout == 900.0
        self.calls.append(list(argv))
        if "run-parts" in argv:
            self.file("hooked", "")
            return self.hook
        (new,) = (word for word in argv if ".rdmaops-new." in word)
        if self.result[0] == 0:
            self.file(new, self.images.pop(0) if len(self.images) > 1 else self.images[0])
        return self.result

    def rebuild(self, image: str = IMAGE, run: Runner | None = None) -> Contents:
        return rebuild(image, VERSION, str(self.root), run or self.run, fresh)

    def rebuild_command(self) -> list[str]:
        """Rebuild, and return the one command that was run."""
        self.rebuild()
        (argv,) = self.calls
        return argv

    @property
    def image(self) -> Path:
        return self.root / IMAGE.lstrip("/")

    def beside(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.image.parent.iterdir()}

    def scratch(self) -> list[str]:
        return os.listdir(self.root / "var/tmp")


def fresh(contents: Contents) -> str | None:
    return None if "/" + CONF in contents.modprobe else "it lacks the option"


NAME = f"initrd.img-{VERSION}"


AFTER = {NAME: NEW, NAME + ".rdmaops-previous": OLD}
