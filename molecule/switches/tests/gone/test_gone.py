# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing of the service remains."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://switch_telemetry"]


def test_nothing_is_left(host: Host) -> None:
    shown = host.check_output("systemctl show --property LoadState,ActiveState switch_telemetry.service").splitlines()
    assert set(shown) == {"LoadState=not-found", "ActiveState=inactive"}
    for path in ("/etc/switch_telemetry", "/etc/systemd/system/switch_telemetry.service"):
        assert not host.file(path).exists
    assert not host.file("/usr/local/lib/switch_telemetry/gnmic").exists
    assert host.run("pgrep --exact gnmic").rc == 1
