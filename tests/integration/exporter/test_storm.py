# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who knows the password gets the metrics, and no one else, whatever other clients and the administrator do meanwhile."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import (
    PYTHON,
    exporting,
    install,
    libraries,
)
from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.storm import Storm
from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.test_exporter import basic
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.unit.exporter.tree import node

LOGINS: dict[str, dict[str, str]] = {"right": basic("ann", "right"), "wrong": basic("ann", "wrong"), "none": {}}


def bcrypt(password: str) -> str:
    code = "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(8)).decode())"
    done = subprocess.run([PYTHON, "-I", "-c", code, password], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def storm(tmp_path: Path, scrapes: int, slow: int, rewrites: int) -> Storm:
    libraries()
    users = [f"ann: '{bcrypt('right')}'", f"eve: '{bcrypt('other')}'"]
    texts = [f"basic_auth_users: {{{', '.join(names)}}}\n" for names in (users, users[:1], users[::-1])]
    config = tmp_path / "web.yml"
    config.write_text(texts[0])
    node(tmp_path / "sys", 1, 8)
    with ports.reserve() as reserved:
        port = ports.number(reserved)
        commands = install(tmp_path, rdma_exporter_listen_address=f"127.0.0.1:{port}")
        commands = commands.further(["--web.config.file", str(config)], ["--path.sysfs", str(tmp_path / "sys")])
        with exporting(commands, port):
            one = Storm(port, LOGINS)
            one.run(scrapes, slow, rewrites, texts, config)
    print(
        f"{sum(one.answers.values())} scrapes, {one.slow_connections} connections of {slow} slow clients, {one.rewrites} "
        f"rewrites: {sum(one.wrong().values())} wrong {one.wrong()}, slowest {one.slowest:.2f} s"
    )
    return one


def test_storm(tmp_path: Path) -> None:
    one = storm(tmp_path, 400, 60, 100)
    assert one.wrong() == {}


@pytest.mark.long
def test_the_whole_storm(tmp_path: Path) -> None:
    one = storm(tmp_path, 10_000, 200, 1_000)
    assert one.wrong() == {}
