# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the role gpu_operator lets the DCGM exporter be found by the Prometheus of the inventory."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

OMITTED = "__omit_place_holder__"
# Variables of the host with Prometheus (None: there is none) and of the role, and what is set: the host's network, the ServiceMonitor.
SITES: list[tuple[dict[str, t.Any] | None, dict[str, t.Any], t.Any, t.Any]] = [
    (None, {}, OMITTED, OMITTED),
    ({}, {}, True, OMITTED),
    ({"monitoring_method": "files"}, {}, True, OMITTED),
    ({"monitoring_method": "operator"}, {}, OMITTED, False),
    ({"monitoring_dcgm": False}, {}, OMITTED, OMITTED),
    ({}, {"gpu_operator_values": {"dcgmExporter": {"hostNetwork": False}}}, OMITTED, OMITTED),
    ({}, {"gpu_operator_dcgm_exporter_host_network": False}, False, OMITTED),
    ({"monitoring_method": "operator"}, {"gpu_operator_values": {"dcgmExporter": {"serviceMonitor": {}}}}, OMITTED, OMITTED),
    ({"monitoring_method": "operator"}, {"gpu_operator_dcgm_exporter_service_monitor": True}, OMITTED, True),
]  # fmt: skip


@pytest.mark.parametrize(("prometheus", "own", "host_network", "service_monitor"), SITES)
def test_where_the_dcgm_exporter_is_found(
    prometheus: dict[str, t.Any] | None, own: dict[str, t.Any], host_network: t.Any, service_monitor: t.Any
) -> None:
    groups = {"monitoring": [] if prometheus is None else ["metrics-1"]}
    site = {
        "groups": groups,
        "hostvars": {"here": {}, "metrics-1": prometheus or {}},
        "inventory_hostname": "here",
        "omit": OMITTED,
        **own,
    }
    role = values(COLLECTION / "roles/gpu_operator")
    name = "{{ 'Compare the release' if __gpu_operator_look else 'Apply the release' }}"
    for option, expected in (("host_network", host_network), ("service_monitor", service_monitor)):
        assert role.task("release.yml", name, f"dcgm_exporter_{option}", **site) == expected, option
