# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The rebuild of an initramfs that has other options of a module than modprobe.d."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._next_boot import initramfs_stale, initramfs_state

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._decision import Decision
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._modprobe_options import Host
    from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._next_boot import Sources


def add_rebuild(decision: Decision, host: Host, src: Sources, module: str, values: t.Mapping[str, str | None]) -> None:
    """Add the rebuild to a decision, after making sure that it can be done; the new image has to have ``values``."""
    kernel = src.entry and src.entry.kernel_version
    if src.contents is None or kernel is None:
        known = " ".join(src.problems) or "it is not known which kernel boots next."
        raise FabricError(
            f"initramfs=rebuild: it cannot be told what is to be rebuilt: {known} Nothing has been changed. Set "
            "initramfs to report, and rebuild it by the means of the distribution."
        )
    image = src.contents.image
    host.preflight(image, kernel)

    def verify(contents: t.Any) -> str | None:
        for name, value in values.items():
            state = initramfs_state(contents, module, name)
            if initramfs_stale(state, value) is not False:
                carried = "an unknown value" if state is None else state["value"]
                return f"it carries {carried} instead of {value} for {name} of {module}"
        return None

    decision.add(f"Rebuild {image}", lambda: host.rebuild(image, kernel, verify))
    old = {name: (initramfs_state(src.contents, module, name) or {}).get("value") for name in values}
    decision.show(image, _lines(module, old), _lines(module, values))


def _lines(module: str, values: t.Mapping[str, str | None]) -> str:
    return "".join(f"options {module} {name}={value}\n" for name, value in values.items() if value is not None)


__all__ = ("add_rebuild",)
