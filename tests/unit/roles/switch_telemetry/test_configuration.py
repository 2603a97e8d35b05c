# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that a site's variables become, and what they are refused for."""

from __future__ import annotations

import base64
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support.gnmi import value

Json = t.Any
LEAF: dict[str, Json] = {"name": "Leaf-1", "address": "leaf-1.example.org", "ports": ["Ethernet1/1"]}
PASSWORD = "$HOME pa\"ss\\w`rd'${X}"
DIGEST_NEEDED = (
    "switch_telemetry_checksum must be sha256: and the digest of gNMIc 0.45.0: `curl -fsSL https://github.com/openconfig/gnmic/"
    "releases/download/v0.45.0/gnmic_0.45.0_Linux_x86_64.tar.gz | sha256sum` prints it, on a machine and network that you trust"
)
CREDENTIALS = {"fabric": {"username": "reader", "password": PASSWORD}}


def configuration(*targets: Json, **given: Json) -> Json:
    return yaml.safe_load(value("__switch_telemetry_config_text", switch_telemetry_targets=list(targets), **given))


def problems(*targets: Json, **given: Json) -> Json:
    sums = {"switch_telemetry_checksum": "sha256:" + "0" * 64}
    return value("__switch_telemetry_problems", **{"switch_telemetry_targets": list(targets), **sums, **given})


def test_a_switch_by_default() -> None:
    made = configuration(LEAF)
    # gNMIc makes small letters of keys.
    target = {"name": "Leaf-1", "address": "leaf-1.example.org:9339", "encoding": "json_ietf"}
    defaults = {"insecure": False, "skip-verify": False, "subscriptions": ["leaf-1"]}
    assert made["targets"] == {"leaf-1": {**target, **defaults}}
    sampled = {"mode": "stream", "stream-mode": "sample", "sample-interval": "10s"}
    paths = [
        "/interfaces/interface[name=Ethernet1/1]/state/counters",
        "/interfaces/interface[name=Ethernet1/1]/ethernet/state/counters",
        "/qos/interfaces/interface[interface-id=Ethernet1/1]/output/queues/queue[name=*]/state",
    ]
    assert made["subscriptions"] == {"leaf-1": {**sampled, "paths": paths}}
    assert made["outputs"]["fabric"]["listen"] == ":9804"
    assert made["outputs"]["fabric"]["expiration"] == "60s"


def test_a_switch_with_all_that_can_be_said() -> None:
    place = {"address": "2001:db8::1", "port": 50051, "ports": ["swp1", "swp2"], "vendor": "cumulus"}
    sampling = {"encoding": "json_ietf", "sample_interval": 30, "credentials": "fabric"}
    tls = {
        "ca_file": "/etc/ssl/fabric.pem", "server_name": "leaf-1.fabric", "cert_file": "/etc/ssl/client.pem",
        "key_file": "/etc/ssl/private/client.key",
    }  # fmt: skip
    made = configuration({**LEAF, **place, **sampling, **tls}, switch_telemetry_credentials=CREDENTIALS)
    target = made["targets"]["leaf-1"]
    assert target["address"] == "[2001:db8::1]:50051"
    assert target["username"] == "${SWITCH_TELEMETRY_FABRIC_USERNAME}"
    assert target["password"] == "${SWITCH_TELEMETRY_FABRIC_PASSWORD}"
    assert target["auth-scheme"] == "Basic"
    assert target["encoding"] == "json_ietf"
    names = {"tls-ca": "ca_file", "tls-cert": "cert_file", "tls-key": "key_file", "tls-server-name": "server_name"}
    assert {key: target[key] for key in names} == {key: tls[name] for key, name in names.items()}
    paths = made["subscriptions"]["leaf-1"]["paths"]
    assert len(paths) == 2 * len(value("__switch_telemetry_known")["cumulus"]["paths"])
    assert "/interfaces/interface[name=swp2]/state/counters/out-discards" in paths
    # Three intervals.
    assert made["outputs"]["fabric"]["expiration"] == "90s"


def test_a_vendor_of_the_site() -> None:
    mine = {"port": 57400, "target": "OTHER", "paths": [{"path": "/interface[name=PORT]/statistics", "source": "mine"}]}
    leaf = {**LEAF, "vendor": "mine", "ports": ["ethernet-1/1"]}
    made = configuration(leaf, switch_telemetry_vendors={"mine": mine})
    assert problems(leaf, switch_telemetry_vendors={"mine": mine}) == []
    assert made["targets"]["leaf-1"]["address"] == "leaf-1.example.org:57400"
    assert made["subscriptions"]["leaf-1"]["target"] == "OTHER"
    assert made["subscriptions"]["leaf-1"]["paths"] == ["/interface[name=ethernet-1/1]/statistics"]


def test_credentials_are_in_their_own_file_alone() -> None:
    targets = [{**LEAF, "credentials": "fabric"}]
    given = {"switch_telemetry_targets": targets, "switch_telemetry_credentials": CREDENTIALS}
    for name in ("__switch_telemetry_config_text", "__switch_telemetry_unit_text"):
        assert "reader" not in value(name, **given)
        assert "pa" + '"ss' not in value(name, **given)
    # As systemd.exec(5) reads it.
    assert value("__switch_telemetry_secrets_text", **given).splitlines() == [
        'SWITCH_TELEMETRY_FABRIC_USERNAME="reader"',
        'SWITCH_TELEMETRY_FABRIC_PASSWORD="\\$HOME pa\\"ss\\\\w\\`rd\'\\${X}"',
    ]


def test_the_revision_knows_what_takes_a_new_start() -> None:
    def revision(**given: Json) -> Json:
        return value("__switch_telemetry_revision", **{"switch_telemetry_targets": [LEAF], **given})

    same = revision()
    assert same == revision()
    others: list[dict[str, Json]] = [
        {"switch_telemetry_sample_interval": 20},
        {"switch_telemetry_version": "0.44.1"},
        {"switch_telemetry_program": "/usr/bin/gnmic"},
        {"switch_telemetry_supplementary_groups": ["ssl-cert"]},
    ]
    assert len({same, *(revision(**other) for other in others)}) == 5
    # It is no hash of a password that anybody may guess at.
    assert revision(switch_telemetry_credentials=CREDENTIALS) == same


def runs(environ: str) -> Json:
    given = {"switch_telemetry_targets": [LEAF], "switch_telemetry_credentials": CREDENTIALS}
    revision = value("__switch_telemetry_revision", **given)
    content = base64.b64encode(environ.replace("@", revision).encode()).decode()
    return value("__switch_telemetry_runs", **given, __switch_telemetry_environ={"content": content})


def test_what_runs_is_told_by_what_it_was_started_with() -> None:
    started = [
        "LANG=C",
        "SWITCH_TELEMETRY_FABRIC_USERNAME=reader",
        f"SWITCH_TELEMETRY_FABRIC_PASSWORD={PASSWORD}",
        "SWITCH_TELEMETRY_REVISION=@",
    ]
    assert runs("\0".join(started) + "\0")
    assert not runs("")
    for number in (1, 2, 3):
        assert not runs("\0".join([*started[:number], started[number] + "x", *started[number + 1 :]]))


# What differs from a switch that is fine, further variables, what is said
REFUSED: list[tuple[Json, Json, str]] = [
    ({"name": "leaf 1"}, {}, "leaf 1: a name must consist of letters, digits, dots, hyphens and underscores"),
    ({"address": "10.0.0.1/24"}, {}, "Leaf-1: address is 10.0.0.1/24; give a name or an address without a port"),
    (
        {"vendor": "acme"},
        {},
        "Leaf-1: vendor is acme; known are arista, cumulus, juniper, openconfig, sonic, and what switch_telemetry_vendors adds",
    ),
    ({"ports": []}, {}, "Leaf-1: ports is empty; name the ports that belong to the fabric"),
    ({"ports": ["$HOME"]}, {}, "Leaf-1: $HOME is not a valid port name"),
    ({"ports": ["a]/b["]}, {}, "Leaf-1: a]/b[ is not a valid port name"),
    ({"sample_interval": 0}, {}, "Leaf-1: sample_interval is at least 1 second"),
    ({"credentials": "other"}, {}, "Leaf-1: switch_telemetry_credentials has no other"),
    ({"cert_file": "/c"}, {}, "Leaf-1: cert_file and key_file belong together"),
    (
        {"insecure": True, "ca_file": "/ca"},
        {},
        "Leaf-1: insecure disables TLS, so skip_verify, ca_file, cert_file and server_name have no meaning",
    ),
    ({"skip_verify": True, "ca_file": "/ca"}, {}, "Leaf-1: with skip_verify, ca_file is not used; choose one of them"),
    (
        {},
        {"switch_telemetry_credentials": {"A-b": {}}},
        "switch_telemetry_credentials: A-b must consist of lower case letters, digits and underscores",
    ),
    (
        {},
        {"switch_telemetry_credentials": {"a": {"username": "u", "password": "p\nq"}}},
        "SWITCH_TELEMETRY_A_PASSWORD has more than one line",
    ),
    (
        {},
        {"switch_telemetry_vendors": {"x": {"paths": [{"path": "/a"}]}}},
        "switch_telemetry_vendors: x: a path has PORT where the port's name belongs, and no dollar sign",
    ),
    ({}, {"switch_telemetry_vendors": {"x": {}}}, "switch_telemetry_vendors: x has no paths"),
    (
        {},
        {"switch_telemetry_listen_address": "9804"},
        "switch_telemetry_listen_address is 9804; give HOST:PORT, [HOST]:PORT or :PORT, from port 1024 on",
    ),
    (
        {},
        {"switch_telemetry_listen_address": ":80"},
        "switch_telemetry_listen_address is :80; give HOST:PORT, [HOST]:PORT or :PORT, from port 1024 on",
    ),
    *(
        ({}, {"switch_telemetry_checksum": checksum}, DIGEST_NEEDED)
        for checksum in ("", "sha256:https://github.com/x/checksums.txt", "0" * 64)
    ),
]


@pytest.mark.parametrize(("differs", "given", "said"), REFUSED)
def test_what_cannot_work_is_told(differs: Json, given: Json, said: str) -> None:
    assert problems({**LEAF, **differs}, **given) == [said]


def test_a_program_of_the_host_needs_no_digest() -> None:
    assert problems(LEAF, switch_telemetry_checksum="", switch_telemetry_program="/usr/bin/gnmic") == []


def test_names_are_told_apart_as_gnmic_does() -> None:
    said = "the name is used twice; gNMIc ignores case"
    assert problems(LEAF, {**LEAF, "name": "leaf-1"}) == [f"Leaf-1: {said}", f"leaf-1: {said}"]
    assert problems() == ["switch_telemetry_targets is empty: name the switches"]
    assert problems(LEAF, {**LEAF, "name": "leaf-2"}) == []
