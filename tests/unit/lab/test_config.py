# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, addresses and places of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of


@pytest.mark.parametrize("index", [1, 2, 10, 99])
def test_a_name_and_its_number(index: int) -> None:
    assert config.node_index(config.node_name(index)) == index


@pytest.mark.parametrize(
    "name", ["gpu", "gpu-", "gpu-0", "gpu-01", "gpu-100", "gpu--1", "gpu-1/..", "node-1", "gpu-٣", ""]
)
def test_names_that_are_none(name: str) -> None:
    message = f"{name!r} is not a node of the lab: the names are gpu-1 to gpu-99"
    assert message_of(LabError, config.node_index, name) == message


def test_addresses() -> None:
    assert config.mac("52:54:00:90", 1, 12) == "52:54:00:90:01:0c"
    assert config.mac("52:54:00:90", config.OUTSIDE_RAIL, 2) == "52:54:00:90:ff:02"
    assert config.rail_address("10.90", 1, 12) == "10.90.1.12"


# /proc/cpuinfo, usable where the device can be opened
CPUS = [
    ("processor: 0\nflags\t\t: fpu vmx sse\n", True),
    ("flags\t\t: fpu svm sse\nbugs: spectre\n", True),
    ("flags\t\t: fpu sse vmmcall\n", False),
    ("model name: vmx svm\nflags: fpu\n", False),
    ("", False),
]


@pytest.mark.parametrize(("cpuinfo", "usable"), CPUS)
def test_kvm_needs_the_cpu(tmp_path: Path, cpuinfo: str, usable: bool) -> None:
    device = tmp_path / "kvm"
    device.touch()
    assert config.kvm_usable(cpuinfo, str(device)) is usable


def test_kvm_needs_the_device(tmp_path: Path) -> None:
    assert config.kvm_usable("flags: vmx\n", str(tmp_path / "kvm")) is False


# environment, cache, state
PLACES = [
    ({"HOME": "/h"}, "/h/.cache/rdmaops/lab", "/h/.cache/rdmaops/lab/state"),
    ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/rdmaops/lab", "/x/rdmaops/lab/state"),
    ({"HOME": "/h", "LAB_CACHE": "/c"}, "/c", "/c/state"),
    ({"HOME": "/h", "LAB_CACHE": "/c", "LAB_STATE": "/s"}, "/c", "/s"),
    ({"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/rdmaops/lab", "/h/.cache/rdmaops/lab/state"),
]


@pytest.mark.parametrize(("environ", "cache", "state"), PLACES)
def test_places(environ: dict[str, str], cache: str, state: str) -> None:
    places = config.places(environ)
    assert (str(places.cache), str(places.state), str(places.sockets)) == (cache, state, f"{state}/run")


def test_sockets_have_short_paths() -> None:
    environ = {"HOME": "/h", "LAB_STATE": "/" + "d" * 100}
    sockets = config.places(environ).sockets
    assert str(sockets).startswith("/tmp/rdmaops-lab-")
    assert len(str(sockets)) + config.LONGEST_SOCKET_NAME <= config.SOCKET_PATH_MAX
    assert sockets != config.places({**environ, "LAB_STATE": "/" + "e" * 100}).sockets


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with config.lock(path, "busy"):
        with pytest.raises(LabError) as caught, config.lock(path, "busy"):
            pytest.fail("the lock was given twice")
        assert str(caught.value) == f"busy ({path})"
    with config.lock(path, "busy"):
        pass


def test_every_setting_that_the_lab_reads_is_there() -> None:
    settings = config.versions()
    assert settings["network"]["rails"] == 2
    assert set(settings["limits"]) == {"boot", "first_boot", "build", "command"}
    assert config.host_packages(settings) == sorted(set(settings["host"]["packages"].values()))
