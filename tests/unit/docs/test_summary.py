# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary that docs/first-cluster.md shows is what such a run prints."""

from __future__ import annotations

import re

from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._run_summary.summary import Node, lines
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._terminal import text_of
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

PAGE = (COLLECTION / "docs/first-cluster.md").read_text(encoding="utf-8")


def test_the_summary_that_is_shown_is_what_is_printed() -> None:
    names = ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    nodes = [
        Node(name, before="exclusive", live="exclusive", next_boot="exclusive", desired="exclusive") for name in names
    ]
    due = {"before": "shared", "live": "shared", "reboot_due": True, "would_help": True, "reason": "it is shared"}
    nodes[0] = nodes[0]._replace(changes={"package": 5, "file": 1}, **due)
    nodes[1] = nodes[1]._replace(changes={"file": 1})
    shown = text_of(lines(nodes, check_mode=True))
    print(shown)
    assert re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S) == [shown]
