# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of boot loaders below a directory."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.default import default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry, Machine
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

FIXTURES = Path(__file__).parents[1] / "fixtures" / "boot"


def boot(root: Path, files: t.Mapping[str, str | bytes], **machine: t.Any) -> BootEntry:
    """Write the files, and return the default entry of a machine that has them."""
    write_tree(root, files)
    return default_entry(str(root), Machine(**machine))


def grubenv(**variables: str) -> str:
    text = "# GRUB Environment Block\n" + "".join(f"{name}={value}\n" for name, value in variables.items())
    return text.ljust(1024, "#")


MENU = "menuentry 'Linux' { linux /vmlinuz-1.0 here }\n"
