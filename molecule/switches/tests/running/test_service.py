# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""gNMIc runs as its unit says, receives the switch's data, and does not disclose the password."""

from __future__ import annotations

import re
import time
import typing as t

from testinfra.host import Host

from ansible_collections.rdmaops.gpu_fabric.tests.support.switch import LEAVES, NAME, PASSWORD

testinfra_hosts = ["ansible://switch_telemetry"]
UNIT = "switch_telemetry.service"
READ = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9804/metrics', timeout=20).read().decode())"
OCTETS = "switch_interfaces_interface_state_counters_in_octets"
LIMIT_S = 120.0


def octets(host: Host) -> dict[tuple[str, str], float]:
    """Return the counter by switch and interface."""
    series = re.findall(rf"^{OCTETS}\{{(.*)\}} (\S+)$", host.check_output("python3 -c %s", READ), re.MULTILINE)
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', text)) for text, _value in series]
    return {(row["switch"], row["interface"]): float(value) for row, (_, value) in zip(labels, series, strict=True)}


def until(condition: t.Callable[[], t.Any]) -> t.Any:
    end = time.monotonic() + LIMIT_S
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(1)
    return value


def test_counters_of_the_switch_are_there_and_grow(host: Host) -> None:
    first = until(lambda: octets(host))
    assert set(first) == {(NAME, "Ethernet1/1")}
    assert first[NAME, "Ethernet1/1"] >= min(LEAVES.values())
    assert until(lambda: octets(host)[NAME, "Ethernet1/1"] > first[NAME, "Ethernet1/1"])


def test_the_journal_names_the_switch_that_does_not_answer(host: Host) -> None:
    log = until(lambda: host.run(f"journalctl --boot --unit {UNIT} --output cat --grep 'not-there.*refused'").stdout)
    assert "connection refused" in log


def test_the_process_has_no_rights(host: Host) -> None:
    assert host.service("switch_telemetry").is_running
    assert host.service("switch_telemetry").is_enabled
    pid = host.check_output(f"systemctl show --property MainPID --value {UNIT}")
    text = host.check_output(f"cat /proc/{pid}/status")
    status = {name: value.split() for name, value in re.findall(r"^(\w+):\t(.*)$", text, re.MULTILINE)}
    assert status["Uid"][0] != "0"
    assert {name: status[name] for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")} == {
        "CapEff": ["0" * 16],
        "CapBnd": ["0" * 16],
        "NoNewPrivs": ["1"],
        "Seccomp": ["2"],
    }


def test_the_password_is_readable_by_root_alone(host: Host) -> None:
    # A part of it that is written in the same way everywhere.
    part = PASSWORD.split()[0] + " pa"
    secrets = host.file("/etc/switch_telemetry/credentials.env")
    assert (secrets.user, secrets.mode) == ("root", 0o600)
    assert part in secrets.content_string.replace("\\", "")
    pid = host.check_output(f"systemctl show --property MainPID --value {UNIT}")
    for command in (f"tr '\\0' ' ' </proc/{pid}/cmdline", f"systemctl show {UNIT}", "journalctl --boot --output cat"):
        assert part not in host.check_output(command).replace("\\", "")
    for path in ("/etc/switch_telemetry/gnmic.yaml", f"/etc/systemd/system/{UNIT}"):
        assert part not in host.file(path).content_string
