# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter fabric_rounds; what it does is tested with the util below it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter import fabric_rounds as plugin


def test_errors_are_those_of_a_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="these are in the list twice: 'a'"):
        plugin.fabric_rounds(["a", "a"])


def test_in_a_template(tmp_path: Path) -> None:
    expression = "groups['all'] | rdmaops.gpu_fabric.fabric_rounds(topology='ring')"
    argv = [str(Path(sys.prefix) / "bin" / "ansible"), "a", "-i", "a,b,c,d", "-c", "local"]
    argv += ["-m", "ansible.builtin.debug", "-a", json.dumps({"msg": f"{{{{ {expression} }}}}"})]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.split("=>", 1)[1])["msg"] == [
        [{"client": "a", "server": "b"}, {"client": "c", "server": "d"}],
        [{"client": "b", "server": "c"}, {"client": "d", "server": "a"}],
    ]
