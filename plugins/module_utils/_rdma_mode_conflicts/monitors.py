# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Programs that look at the RDMA devices of the host, where a device is missing while a pod has it."""

from __future__ import annotations

import typing as t

from .._kubernetes.client import Object
from .plugins import image_and_program


class Monitor(t.NamedTuple):
    """A program by the name of its image. One that acts has nodes cordoned, rebooted or replaced."""

    image: str
    acts: bool
    what: str
    remedy: str


MONITORS = (
    # health-monitors/nic-health-monitor in NVIDIA/NVSentinel: three polls without the device are a fatal event.
    Monitor(
        "nic-health-monitor",
        True,
        "is NVSentinel's NIC health monitor, which takes a device that a pod has for one that failed, and has the node "
        "cordoned or replaced",
        "Exclude the devices of pods from it (nicExclusionRegex), disable it (global.nicHealthMonitor.enabled), or "
        "keep it off the node",
    ),
    # components/accelerator/nvidia/infiniband in leptonai/gpud.
    Monitor(
        "gpud",
        False,
        "is gpud, which reports a device that a pod has as a port that is down",
        "Exclude the devices of pods from it (--infiniband-exclude-devices)",
    ),
    # collector/infiniband_linux.go in prometheus/node_exporter, which is enabled by default.
    Monitor(
        "node-exporter",
        False,
        "is node_exporter, whose collector infiniband has no value of a device that a pod has",
        "Disable that collector (--no-collector.infiniband), and use the role rdma_exporter",
    ),
    # pkg/driver/driver.go in kubernetes-sigs/dranet.
    Monitor(
        "dranet",
        False,
        "is dranet, which reads the mode once, when it starts",
        "Restart its pod once the mode has changed",
    ),
)
_OFF = ("--no-collector.infiniband", "--collector.disable-defaults")
_ON = "--collector.infiniband"


def monitor_of(spec: Object) -> Monitor | None:
    """Return which of them a pod's spec runs, unless its arguments say that it does not look."""
    for container in spec.get("containers") or []:
        words = {str(word).partition("=")[0] for key in ("command", "args") for word in container.get(key) or []}
        for monitor in MONITORS:
            if monitor.image in image_and_program(container) and (_ON in words or not words.intersection(_OFF)):
                return monitor
    return None


__all__ = ("MONITORS", "Monitor", "monitor_of")
