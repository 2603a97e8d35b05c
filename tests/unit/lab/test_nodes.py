# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab remembers, which image it takes, and the inventory it writes."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, image, image_build, inventory, nodes
from ansible_collections.rdmaops.gpu_fabric.tests.lab.cli import main
from ansible_collections.rdmaops.gpu_fabric.tests.lab.progress import LabError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of

SERIES = [
    # names of packages, newest release of series 7.2 and flavour amd64
    (["linux-image-7.2.9+deb13-amd64", "linux-image-7.2.12+deb13-amd64"], "7.2.12+deb13-amd64"),
    (["linux-image-7.2.12+deb13-cloud-amd64", "linux-image-7.2.12+deb13-amd64-dbg"], None),
    (["linux-image-7.20.1+deb13-amd64", "linux-image-7.1.1+deb13-amd64"], None),
    (["linux-image-7.2.12+deb13-amd64", "linux-image-7.3.4+deb13-amd64"], "7.2.12+deb13-amd64"),
    ([], None),
]


@pytest.mark.parametrize(("names", "release"), SERIES)
def test_the_newest_kernel(names: list[str], release: str | None) -> None:
    assert image_build.newest_release(names, "7.2", "amd64") == release


OLD, NEW = "linux-image-7.2.12+deb13-amd64", "linux-image-7.3.4+deb13-amd64"

# names of packages, series in the order of preference, series and release
PREFERRED = [
    ([OLD, NEW], ["7.2", "7.3"], ("7.2", "7.2.12+deb13-amd64")),
    ([OLD, NEW], ["7.3", "7.2"], ("7.3", "7.3.4+deb13-amd64")),
    ([NEW], ["7.2", "7.3"], ("7.3", "7.3.4+deb13-amd64")),
    (["linux-image-7.2.12+deb13-cloud-amd64", NEW], ["7.2", "7.3"], ("7.3", "7.3.4+deb13-amd64")),
    ([OLD, NEW], ["7.4"], None),
    ([OLD, NEW], [], None),
]


@pytest.mark.parametrize(("names", "series", "chosen"), PREFERRED)
def test_the_first_series_that_the_archive_has(
    names: list[str], series: list[str], chosen: tuple[str, str] | None
) -> None:
    assert image_build.choose_kernel(names, series, "amd64") == chosen


def test_every_series_has_a_patch_of_the_driver() -> None:
    patches = {image_build.driver_patch(series) for series in config.versions()["kernel"]["series"]}
    assert {path for path in image.inputs() if path.suffix == ".patch"} == patches


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    copy = tmp_path / "lab"
    shutil.copytree(config.HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_the_key_follows_every_input(sources: Path) -> None:
    keys = {image.image_key(sources)}
    for path in image.inputs(sources):
        # At the beginning it is in no table of TOML.
        path.write_bytes(b"added = 1\n" + path.read_bytes())
        keys.add(image.image_key(sources))
    (sources / "guest/etc/new").write_text("")
    keys.add(image.image_key(sources))
    (sources / "guest/etc/new").chmod(0o755)
    keys.add(image.image_key(sources))
    assert len(keys) == len(image.inputs(sources)) + 2


def test_the_key_does_not_follow_comments_and_other_programs(sources: Path) -> None:
    before = image.image_key(sources)
    for name in ("image.py", "image_build.py"):
        with (sources / name).open("a") as file:
            file.write("\n\n# A comment.\n")
    with (sources / "nodes.py").open("a") as file:
        file.write("OTHER = 1\n")
    with (sources / "versions.toml").open("a") as file:
        file.write("# A comment.\n[tools.other]\nversion = '1'\n")
    assert image.image_key(sources) == before


@pytest.fixture
def lab(lab: nodes.Lab) -> nodes.Lab:
    """The same with two nodes."""
    entries = {f"gpu-{number}": {"ssh_port": 2200 + number, "image": "0123"} for number in (10, 2)}
    lab.write({"nodes": entries, "rail_ports": [5000, 5001]})
    return lab


def test_nodes_come_in_the_order_of_their_numbers(lab: nodes.Lab) -> None:
    assert lab.names() == ["gpu-2", "gpu-10"]


def test_inventory(lab: nodes.Lab, tmp_path: Path) -> None:
    lab.write_inventory()
    hosts = yaml.safe_load((tmp_path / "inventory/hosts.yml").read_text())["gpu_nodes"]["hosts"]
    assert list(hosts) == ["gpu-2", "gpu-10"]
    assert hosts["gpu-10"]["ansible_port"] == 2210
    assert hosts["gpu-10"]["rails"] == [
        {"netdev": "rail0", "address": "10.90.0.10", "rdma": "rxe0"},
        {"netdev": "rail1", "address": "10.90.1.10", "rdma": "rxe1"},
    ]
    assert hosts["gpu-2"]["ansible_ssh_private_key_file"] == str(lab.places.images / "0123/id_ed25519")
    assert (lab.places.state / "known_hosts").read_text().splitlines() == [
        "[127.0.0.1]:2210 ssh-ed25519 AAAA",
        "[127.0.0.1]:2202 ssh-ed25519 AAAA",
    ]
    inventory.remove()
    assert not (tmp_path / "inventory").exists()


def test_a_node_that_is_not_there(lab: nodes.Lab) -> None:
    message = "the lab has no node 'gpu-7' (it has: gpu-10, gpu-2); 'lab.py up gpu-7' makes it"
    assert message_of(LabError, lab.node, "gpu-7") == message


def test_an_image_that_is_gone(lab: nodes.Lab) -> None:
    shutil.rmtree(lab.places.images)
    message = "the image 0123 that gpu-2 was made from is gone: 'lab.py fresh gpu-2' makes it anew"
    assert message_of(LabError, lab.image_of, "gpu-2") == message


def test_a_state_file_that_is_damaged(lab: nodes.Lab) -> None:
    lab.file.write_text("{")
    with pytest.raises(LabError, match=r"lab\.json is not readable .*: run 'lab\.py down --all' and then 'up'\Z"):
        lab.names()
    lab.down(wipe=True)
    assert lab.names() == []


def test_down_leaves_nothing_but_disks(lab: nodes.Lab) -> None:
    disk = lab.places.node("gpu-2") / "disk.qcow2"
    disk.parent.mkdir()
    disk.touch()
    lab.places.sockets.mkdir()
    (lab.places.sockets / "gpu-2.qmp").touch()
    lab.down()
    assert disk.exists()
    assert not lab.places.sockets.exists()
    lab.down(wipe=True)
    assert not disk.parent.exists()


def test_only_a_guests_greeting_counts_as_up() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]

        def serve() -> None:
            for greeting in (b"", b"SSH-2.0-OpenSSH_10.0\r\n"):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert nodes.banner(port) is False
        assert nodes.banner(port) is True
        thread.join(5)
    assert nodes.banner(port) is False


def test_the_command_line_tells_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.delenv("LAB_STATE", raising=False)
    assert main(["console", "gpu-1"]) == 1
    assert capsys.readouterr().err.endswith(
        "failed: the lab has no node 'gpu-1' (it has: none); 'lab.py up gpu-1' makes it\n"
    )
    assert main(["host-packages"]) == 0
    assert "qemu-system-x86" in capsys.readouterr().out.split()
