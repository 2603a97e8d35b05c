# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Testinfra's hosts of Molecule's inventory, with two properties that testinfra does not provide: every command has a time
limit, and runs as `sh -eu`, so that a script of several commands fails at the first one that does.

Commands share the ssh connection that Ansible uses: the inventory of tests/lab sets ControlMaster.
"""

from __future__ import annotations

from testinfra.backend.ansible import AnsibleBackend
from testinfra.host import Host

LIMIT_S = 600


class Backend(AnsibleBackend):
    """Replaces testinfra's own for `ansible://` (molecule/conftest.py)."""

    def get_command(self, command: str, *args: str) -> str:
        return str(self.quote("timeout %s sh -euc %s", str(LIMIT_S), super().get_command(command, *args)))


def rail_address(host: Host, rail: int) -> str:
    """Return the IPv4 address of a node's rail."""
    return str(host.ansible.get_variables()["rails"][rail]["address"])


__all__ = ["Backend", "rail_address"]
