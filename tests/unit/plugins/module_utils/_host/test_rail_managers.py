# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who configures a network device, and the files of each service. tests/integration/test_rail_files.py has the programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._host import rail_managers, rail_model

RAILS = rail_model.rails(
    [
        {
            "netdev": "rail0",
            "addresses": ["10.1.0.11/24"],
            "mtu": 9000,
            "routes": [{"to": "10.0.0.0/8", "via": "10.1.0.1"}],
        },
        {"netdev": "rail1", "addresses": ["10.1.0.12/24", "fd01::12/64"]},
    ]
)
# networkctl of systemd 257, abridged.
CONFIGURED = """● 3: rail0
                   Link File: /usr/lib/systemd/network/99-default.link
                Network File: /etc/systemd/network/20-rails.network
                       State: routable (configured)
                Online state: online
                        Type: ether
"""
UNMANAGED = CONFIGURED.replace("/etc/systemd/network/20-rails.network", "n/a").replace("(configured)", "(unmanaged)")
OWN = CONFIGURED.replace("20-rails", "05-rdmaops-rail0")


class Services(rail_managers.Host):
    """Programs that answer as given: by their name, or by name and unit."""

    def __init__(self, root: Path, **answers: str) -> None:
        super().__init__(str(root))
        self.answers = answers
        self.calls: list[str] = []

    def ask(self, *argv: str) -> str | None:
        if argv[0] == "systemctl":
            running = {"systemd-networkd.service": "networkctl", "NetworkManager.service": "nmcli"}
            return "active\n" if running[argv[2]] in self.answers else None
        return self.answers.get(argv[0])

    def sleep(self, seconds: float) -> None:
        self.calls.append(f"sleep {seconds}")
        self.answers = {**self.answers, "networkctl": UNMANAGED}

    def tell(self, *argv: str) -> None:
        self.calls.append(" ".join(argv))

    def write(self, path: str, text: str) -> None:
        place = Path(self.root + path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (None, None)),
        ("", (None, None)),
        (CONFIGURED, ("configured", "/etc/systemd/network/20-rails.network")),
        (UNMANAGED, ("unmanaged", None)),
    ],
)
def test_networkctl(text: str | None, expected: tuple[str | None, str | None]) -> None:
    assert rail_managers.networkd_status(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (None, "")),
        ("100 (connected)\nWired connection 1\n", (100, "Wired connection 1")),
        ("100 (connected)\na\\:b\n", (100, "a:b")),
        ("30 (disconnected)\n\n", (30, "")),
        ("10 (unmanaged)\n\n", (10, "")),
    ],
)
def test_nmcli(text: str | None, expected: tuple[int | None, str]) -> None:
    assert rail_managers.network_manager_status(text) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"networkctl": UNMANAGED}, "networkd"),
        ({"networkctl": OWN}, "networkd"),
        ({"nmcli": "100 (connected)\nrdmaops-rail0\n"}, "NetworkManager"),
        ({"nmcli": "30 (disconnected)\n\n"}, "NetworkManager"),
        ({"nmcli": "10 (unmanaged)\n\n", "networkctl": UNMANAGED}, "networkd"),
        ({"netplan": "network: {}\n", "networkctl": UNMANAGED}, "netplan"),
    ],
)
def test_the_service_in_charge(tmp_path: Path, answers: dict[str, str], expected: str) -> None:
    services = Services(tmp_path, **answers)
    services.write("/etc/netplan/01-host.yaml", "network: {ethernets: {eth0: {dhcp4: true}}}\n")
    services.write("/etc/systemd/network/05-rdmaops-rail0.network", f"{HEADER}\n[Match]\n")
    assert rail_managers.choose(services, "rail0", "auto", False) == expected


@pytest.mark.parametrize(
    ("answers", "manager", "message"),
    [
        ({}, "auto", "Configuring rail rail0: no service configures it: netplan has no files, systemd-networkd does not run, and"),
        ({"nmcli": "10 (unmanaged)\n\n"}, "auto", "Configuring rail rail0: no service configures it"),
        ({"ifquery": "address: 10.1.0.11\n"}, "auto", "Configuring rail rail0: /etc/network/interfaces configures it (ifupdown)"),
        ({"ifquery": "address: 10.1.0.11\n", "networkctl": UNMANAGED}, "networkd", "Configuring rail rail0: /etc/network/interf"),
        (
            {"networkctl": OWN, "nmcli": "30 (disconnected)\n\n"}, "auto",
            "Configuring rail rail0: networkd and NetworkManager both configure it. Choose one with the option manager",
        ),
        (
            {"networkctl": CONFIGURED}, "auto",
            "Configuring rail rail0: it is configured by /etc/systemd/network/20-rails.network, which this module has not"
            " written. Remove it there, or set on_conflict to take_over",
        ),
        (
            {"nmcli": "100 (connected)\nWired connection 1\n"}, "auto",
            "Configuring rail rail0: it is configured by the connection Wired connection 1, which this module has not written",
        ),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, answers: dict[str, str], manager: str, message: str) -> None:
    services = Services(tmp_path, **answers)
    services.write("/etc/systemd/network/20-rails.network", "[Match]\nName=rail*\n")
    services.write("/etc/systemd/network/05-rdmaops-rail0.network", f"{HEADER}\n[Match]\n")
    with pytest.raises(rail_model.RailError) as caught:
        rail_managers.choose(services, "rail0", manager, False)
    assert str(caught.value).startswith(message)


def test_a_host_whose_netplan_has_network_manager_is_refused(tmp_path: Path) -> None:
    services = Services(tmp_path, netplan="NetworkManager\n", nmcli="30 (disconnected)\n\n")
    services.write("/etc/netplan/01-desktop.yaml", "network: {renderer: NetworkManager}\n")
    with pytest.raises(rail_model.RailError) as caught:
        rail_managers.choose(services, "rail0", "auto", True)
    assert str(caught.value) == (
        "Configuring rail rail0: netplan has NetworkManager configure it, and up to netplan 1.1 NetworkManager gets no "
        "rules from it. Set the option manager to NetworkManager, whose own file has them"
    )
    assert rail_managers.choose(services, "rail0", "NetworkManager", False) == "NetworkManager"


def test_taking_over(tmp_path: Path) -> None:
    assert rail_managers.choose(Services(tmp_path, networkctl=CONFIGURED), "rail0", "auto", True) == "networkd"
    services = Services(tmp_path, netplan="network: {}\n")
    for text in ("network:\n  ethernets:\n    rail0:\n      dhcp4: true\n", 'network: {ethernets: {"rail0": {}}}\n'):
        services.write("/etc/netplan/50-cloud-init.yaml", text)
        with pytest.raises(rail_model.RailError) as caught:
            rail_managers.choose(services, "rail0", "auto", True)
        assert str(caught.value) == (
            "Configuring rail rail0: it is configured by /etc/netplan/50-cloud-init.yaml, which this module has not written."
            " Remove it there"
        )
    assert rail_managers.choose(services, "rail01", "auto", True) == "netplan"


def test_files_of_former_runs(tmp_path: Path) -> None:
    services = Services(tmp_path)
    for path in (
        "/etc/netplan/90-rdmaops-rails.yaml",
        "/etc/systemd/network/05-rdmaops-rail0.network",
        "/etc/NetworkManager/system-connections/rdmaops-rail1.nmconnection",
    ):
        services.write(path, f"{HEADER}\n")
    services.write("/etc/systemd/network/05-rdmaops-rail9.network", "[Match]\nName=rail9\n")
    assert rail_managers.own_files(services) == {
        "/etc/netplan/90-rdmaops-rails.yaml": "netplan",
        "/etc/systemd/network/05-rdmaops-rail0.network": "networkd",
        "/etc/NetworkManager/system-connections/rdmaops-rail1.nmconnection": "NetworkManager",
    }


@pytest.mark.parametrize(
    ("manager", "running", "calls"),
    [
        ("networkd", ["networkctl"], ["networkctl reload"]),
        ("networkd", [], []),
        ("NetworkManager", ["networkctl", "nmcli"], ["nmcli connection reload"]),
        ("netplan", ["networkctl"], ["netplan generate", "networkctl reload"]),
        ("netplan", ["nmcli"], ["netplan generate", "nmcli connection reload"]),
    ],
)
def test_services_read_their_files_again(tmp_path: Path, manager: str, running: list[str], calls: list[str]) -> None:
    services = Services(tmp_path, **dict.fromkeys(running, ""))
    rail_managers.reload(services, manager, ["rail0"])
    assert services.calls == calls


def test_ipoib_in_a_pod_is_still_ipoib(tmp_path: Path) -> None:
    services = Services(tmp_path)
    for rail, infiniband in zip(RAILS, (True, False)):
        services.write(
            rail_managers.path("NetworkManager", rail.netdev), rail_managers.network_manager(rail, infiniband)
        )
    assert rail_managers.written_for_infiniband(services, ["rail0", "rail1", "rail2"]) == {"rail0"}


def test_networkd_is_given_time(tmp_path: Path) -> None:
    services = Services(tmp_path, networkctl=CONFIGURED.replace("(configured)", "(configuring)"))
    rail_managers.reload(services, "networkd", ["rail0", "rail1"])
    assert services.calls == ["networkctl reload", "sleep 1"]


def test_networkd() -> None:
    assert rail_managers.networkd(RAILS[0]).split("\n") == [
        "[Match]", "Name=rail0", "", "[Link]", "RequiredForOnline=no", "MTUBytes=9000", "", "[Network]", "Address=10.1.0.11/24",
        "", "[Route]", "Destination=10.1.0.0/24", "Scope=link", "Table=100",
        "", "[Route]", "Destination=10.0.0.0/8", "Gateway=10.1.0.1", "Table=100",
        "", "[RoutingPolicyRule]", "From=10.1.0.11", "Table=100", "Priority=100",
    ]  # fmt: skip


def test_netplan() -> None:
    devices = json.loads(rail_managers.netplan(RAILS))["network"]["ethernets"]
    assert devices["rail0"] == {
        "mtu": 9000,
        "optional": True,
        "addresses": ["10.1.0.11/24"],
        "routes": [
            {"to": "10.1.0.0/24", "scope": "link", "table": 100},
            {"to": "10.0.0.0/8", "via": "10.1.0.1", "table": 100},
        ],
        "routing-policy": [{"from": "10.1.0.11", "table": 100, "priority": 100}],
    }
    assert len(devices["rail1"]["routing-policy"]) == 2


def test_network_manager() -> None:
    first, second = (rail_managers.network_manager(rail, False).split("\n\n") for rail in RAILS)
    assert first[0].startswith("[connection]\nid=rdmaops-rail0\nuuid=")
    assert first[1] == "[ethernet]\nmtu=9000"
    assert first[2].split("\n")[1:] == [
        "method=manual", "never-default=true", "address1=10.1.0.11/24", "route1=10.1.0.0/24", "route1_options=table=100",
        "route2=10.0.0.0/8,10.1.0.1", "route2_options=table=100", "routing-rule1=priority 100 from 10.1.0.11 table 100",
    ]  # fmt: skip
    assert first[3] == "[ipv6]\nmethod=link-local"
    assert "address1=fd01::12/64" in second[3]
    assert "type=infiniband" in rail_managers.network_manager(RAILS[0], True)
