# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches that cannot work; the role's tests have the messages of the other options."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.rdmaops.gpu_fabric.plugins.filter.switch_problems import switch_problems

Json = t.Any
LEAF: dict[str, Json] = {"name": "leaf-1", "address": "192.0.2.1", "ports": ["Ethernet1/1"]}
VENDORS = {"openconfig": {"paths": [{"path": "/interface[name=PORT]/state"}]}}
ACCOUNTS = {"fabric": {"username": "reader", "password": "secret"}}
INSECURE = "leaf-1: insecure disables TLS, so skip_verify, ca_file, cert_file and server_name have no meaning"
PATH = "switch_telemetry_vendors: x: a path has PORT where the port's name belongs, and no dollar sign"

# what differs from a switch that is fine
FINE: tuple[Json, ...] = (
    {},
    {"address": "2001:db8::1"},
    {"ports": [1, "eth1/1:2"]},
    {"sample_interval": "1"},
    {"credentials": "fabric"},
    {"credentials": ""},
    {"cert_file": "/c", "key_file": "/k", "ca_file": "/ca", "server_name": "leaf"},
    {"skip_verify": True},
    {"insecure": True},
    {"insecure": "false", "skip_verify": "no", "ca_file": "/ca"},
)

# what differs, and what is reported
SWITCHES: tuple[tuple[Json, list[str]], ...] = (
    ({"name": "-leaf"}, ["-leaf: a name must consist of letters, digits, dots, hyphens and underscores"]),
    ({"address": "leaf 1"}, ["leaf-1: address is leaf 1; give a name or an address without a port"]),
    ({"vendor": "x"}, ["leaf-1: vendor is x; known are openconfig, and what switch_telemetry_vendors adds"]),
    ({"ports": []}, ["leaf-1: ports is empty; name the ports that belong to the fabric"]),
    ({"ports": ["a b", "c\n"]}, ["leaf-1: a b is not a valid port name", "leaf-1: c\n is not a valid port name"]),
    ({"sample_interval": 0}, ["leaf-1: sample_interval is at least 1 second"]),
    ({"credentials": "x"}, ["leaf-1: switch_telemetry_credentials has no x"]),
    ({"key_file": "/k"}, ["leaf-1: cert_file and key_file belong together"]),
    ({"insecure": "yes", "server_name": "leaf"}, [INSECURE]),
    ({"insecure": True, "skip_verify": True}, [INSECURE]),
    ({"skip_verify": True, "ca_file": "/ca"}, ["leaf-1: with skip_verify, ca_file is not used; choose one of them"]),
)

CREDENTIALS: tuple[tuple[Json, list[str]], ...] = (
    ({"a": {}}, []),
    ({"1a": {}}, ["switch_telemetry_credentials: 1a must consist of lower case letters, digits and underscores"]),
    ({"a": {"password": "s\nt"}}, ["SWITCH_TELEMETRY_A_PASSWORD has more than one line"]),
    ({"a": {"username": "s\r"}}, ["SWITCH_TELEMETRY_A_USERNAME has more than one line"]),
)

PATHS: tuple[tuple[Json, list[str]], ...] = (
    ({"paths": [{"path": "/a[name=PORT]"}]}, []),
    ({}, ["switch_telemetry_vendors: x has no paths"]),
    ({"paths": [{"path": "/a"}]}, [PATH]),
    ({"paths": [{"path": "/$a/PORT"}, {"source": "y"}]}, [PATH, PATH]),
)


@pytest.mark.parametrize("differs", FINE)
def test_a_switch_that_is_fine(differs: Json) -> None:
    assert switch_problems([{**LEAF, **differs}], VENDORS, ACCOUNTS) == []


@pytest.mark.parametrize(("differs", "problems"), SWITCHES)
def test_a_switch(differs: Json, problems: list[str]) -> None:
    assert switch_problems([{**LEAF, **differs}], VENDORS, ACCOUNTS) == problems


@pytest.mark.parametrize(("credentials", "problems"), CREDENTIALS)
def test_credentials(credentials: Json, problems: list[str]) -> None:
    assert switch_problems([LEAF], VENDORS, credentials) == problems


@pytest.mark.parametrize(("vendor", "problems"), PATHS)
def test_paths_of_a_vendor(vendor: Json, problems: list[str]) -> None:
    assert switch_problems([LEAF], {**VENDORS, "x": vendor}) == problems


def test_names() -> None:
    assert switch_problems([], VENDORS) == ["switch_telemetry_targets is empty: name the switches"]
    assert switch_problems([LEAF, {**LEAF, "name": "Leaf-1"}], VENDORS) == [
        "leaf-1: the name is used twice; gNMIc ignores case",
        "Leaf-1: the name is used twice; gNMIc ignores case",
    ]


def test_the_interval_for_all() -> None:
    assert switch_problems([LEAF], VENDORS, {}, 0) == ["leaf-1: sample_interval is at least 1 second"]


@pytest.mark.parametrize("switches", [5, ["leaf-1"], [{"name": "leaf-1"}], [{**LEAF, "sample_interval": "often"}]])
def test_another_form_is_an_error(switches: Json) -> None:
    with pytest.raises(AnsibleFilterError, match="do not have the form of the role's options"):
        switch_problems(switches, VENDORS)
