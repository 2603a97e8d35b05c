# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let Ansible template an expression."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path


def templated(expression: str, variables: dict[str, t.Any], directory: Path, hosts: str = "localhost,") -> t.Any:
    """Return what an expression is to Ansible for the first of the hosts."""
    done = ansible_debug(expression, variables, directory, hosts)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.split("=>", 1)[1])["msg"]


def ansible_debug(
    expression: str, variables: dict[str, t.Any], directory: Path, hosts: str = "localhost,"
) -> subprocess.CompletedProcess[str]:
    """Let Ansible template an expression for the first of the hosts."""
    file = directory / "variables.json"
    file.write_text(json.dumps(variables), encoding="utf-8")
    argv = [str(Path(sys.prefix) / "bin" / "ansible"), hosts.split(",")[0], "-i", hosts, "-c", "local"]
    argv += ["-m", "ansible.builtin.debug", "-a", json.dumps({"msg": f"{{{{ {expression} }}}}"}), "-e", f"@{file}"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=environment, cwd=directory)
