# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exporter as it is installed: what promtool says, who gets in, what it leaves behind, and the role that asks for it."""

from __future__ import annotations

import base64
import http.client
import os
import signal
import ssl
import subprocess
import typing as t
import urllib.error
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.running import (
    PYTHON,
    Commands,
    Running,
    exporting,
    install,
    libraries,
    places,
    play,
    role,
)
from ansible_collections.rdmaops.gpu_fabric.tests.integration.exporter.storm import Storm
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.suite.load import Others, Pace
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import rescued
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.series import Series
from ansible_collections.rdmaops.gpu_fabric.tests.unit.roles.rdma_exporter.tree import node

# A machine is quiet while others take less than this share of its processors.
QUIET = 0.05


class Installed(t.NamedTuple):
    """What the role has written, for a port, and a node to be looked at."""

    commands: Commands
    port: int
    workplace: Path
    variables: dict[str, t.Any]

    def with_options(self, *serve: str) -> Commands:
        return self.commands.further(serve, ["--path.sysfs", str(self.workplace / "sys")])


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Installed]:
    workplace = tmp_path_factory.mktemp("exporter")
    with ports.reserve() as reserved:
        port = ports.number(reserved)
        variables = {
            "rdma_exporter_listen_address": f"127.0.0.1:{port}",
            "rdma_exporter_expected_devices": ["mlx5_0", "mlx5_9"],
        }
        commands = install(workplace, **variables)
        node(workplace / "sys", 2, 64)
        yield Installed(commands, port, workplace, variables)


@pytest.fixture
def no_server() -> t.Iterator[str]:
    """Return an address at which nothing listens."""
    with ports.reserve() as reserved:
        yield f"127.0.0.1:{ports.number(reserved)}"


@pytest.fixture
def exporter(installed: Installed) -> t.Iterator[Running]:
    with exporting(installed.with_options(), installed.port) as running:
        yield running


def test_promtool_finds_nothing_wrong(exporter: Running) -> None:
    tool = need_tool("promtool")
    body = exporter.get()
    done = subprocess.run([tool, "check", "metrics"], input=body, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # It does find what is wrong.
    wrong = body + b'# TYPE rdma_x counter\nrdma_x{device="a"} 1\n'
    assert subprocess.run([tool, "check", "metrics"], input=wrong, capture_output=True, timeout=60).returncode != 0


def test_what_is_expected_is_missed(exporter: Running) -> None:
    result = Series(exporter.get())
    assert result.of("rdma_device_present") == {"mlx5_0": 1, "mlx5_1": 1, "mlx5_9": 0}
    assert result.of("rdma_device_expected") == {"mlx5_0": 1, "mlx5_9": 1}
    assert result.value("rdma_exporter_scrape_complete") == 1


def test_the_port_is_taken(installed: Installed, exporter: Running) -> None:
    done = subprocess.run(installed.commands.serve, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"Listening on 127.0.0.1:{installed.port}: Address already in use. "
        "Set another address with --web.listen-address\n"
    )


def test_the_role_tells_its_own_exporter_from_another(
    installed: Installed, exporter: Running, no_server: str, tmp_path: Path
) -> None:
    same = {**places(installed.workplace), "rdma_exporter_wait": 2, **installed.variables}
    other = {**same, "rdma_exporter_expected_devices": []}
    silent = {**same, "rdma_exporter_listen_address": no_server}
    done = play(tmp_path, role("code.yml", **same), role("verify.yml", **same), *refused([other, silent], "verify.yml"))
    assert "changed=0 " in done.output, done.output
    assert "rescued=2 " in done.output, done.output
    assert "is healthy" in done.output
    assert "Connection refused" in done.output


def refused(all_variables: t.Sequence[dict[str, t.Any]], tasks_from: str = "main") -> list[t.Any]:
    return [rescued(role(tasks_from, **variables)) for variables in all_variables]


def test_check_mode_on_a_virgin_host(no_server: str, tmp_path: Path) -> None:
    """Nothing is there: no directory, no unit, no service."""
    nowhere = {
        "rdma_exporter_directory": str(tmp_path / "lib"),
        "__rdma_exporter_unit_directory": str(tmp_path / "units"),
        "rdma_exporter_listen_address": no_server,
        "rdma_exporter_web_config": {"basic_auth_users": {"ann": "$2y$10$" + "a" * 53}},
    }
    done = play(tmp_path / "work", role(**nowhere), check=True)
    assert done.rc == 0, done.output
    assert "CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SYS_PTRACE" in done.output
    assert not (tmp_path / "lib").exists()
    assert not (tmp_path / "units").exists()


# variables, what is said
REFUSED = [
    ({"rdma_exporter_listen_address": "::1:9879"}, "it is ::1:9879"),
    (
        {"rdma_exporter_netns_timeout": 9.0},
        "rdma_exporter_netns_timeout (9.0 s) must be less than rdma_exporter_scrape_timeout (8 s)",
    ),
    ({"rdma_exporter_method": "daemonset"}, "daemonset needs rdma_exporter_image"),
    ({"rdma_exporter_method": "pod"}, "value of rdma_exporter_method must be one of: systemd, daemonset, got: pod"),
]


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    done = play(tmp_path, *refused([variables for variables, _said in REFUSED]))
    words = " ".join(done.output.split())
    assert "changed=0 " in words
    for _variables, expected in REFUSED:
        assert expected in words


def test_systemd_understands_the_units(installed: Installed) -> None:
    tool = need_tool("systemd-analyze")
    units = [str(unit) for unit in sorted(installed.workplace.glob("*.service"))]
    assert len(units) == 2
    done = subprocess.run([tool, "verify", *units], capture_output=True, text=True, timeout=120, check=False)
    ours = [line for line in done.stderr.splitlines() if "rdma_exporter" in line]
    assert ours == []


# --- who gets in ---------------------------------------------------------------------------------------


def openssl(directory: Path, *names: str) -> None:
    """Make a certificate for each name, signed by itself."""
    tool = need_tool("openssl")
    for name in names:
        argv = [tool, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        argv += ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run(argv, cwd=directory, check=True, capture_output=True, timeout=120)


def bcrypt(password: str) -> str:
    code = "import bcrypt, sys; print(bcrypt.hashpw(sys.argv[1].encode(), bcrypt.gensalt(4)).decode())"
    done = subprocess.run([PYTHON, "-I", "-c", code, password], capture_output=True, text=True, check=True, timeout=60)
    # What htpasswd writes.
    return done.stdout.strip().replace("$2b$", "$2y$")


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_users_and_certificates(installed: Installed, tmp_path: Path) -> None:
    libraries()
    openssl(tmp_path, "server", "client")
    config = tmp_path / "web.yml"
    config.write_text(
        "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
        f"basic_auth_users: {{ann: {bcrypt('right')}}}\n"
    )
    trust = ssl.create_default_context(cafile=tmp_path / "server.crt")
    commands = installed.with_options("--web.config.file", str(config))
    with exporting(commands, installed.port, "https") as running:
        assert b"rdma_device_info" in running.get(headers=basic("ann", "right"), context=trust)
        assert b"is healthy" in running.get("/-/healthy", context=trust)
        strangers = (basic("ann", "wrong"), basic("bob", "right"), basic("ann", ""), {"Authorization": "Basic ?"}, {})
        for headers in strangers:
            with pytest.raises(urllib.error.HTTPError) as caught:
                running.get(headers=headers, context=trust)
            assert (caught.value.code, caught.value.headers["WWW-Authenticate"]) == (401, 'Basic realm="rdma_exporter"')
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError, urllib.error.URLError)):
            Running(running.processes, running.port).get()
        # A new password holds without a new start, and the old one does no more.
        config.write_text(config.read_text().replace("ann: ", "eve: "))
        assert running.get(headers=basic("eve", "right"), context=trust)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            running.get(headers=basic("ann", "right"), context=trust)
        # A client certificate, from now on, on connections that were there before too.
        kept = http.client.HTTPSConnection("127.0.0.1", running.port, context=trust, timeout=30)
        kept.request("GET", "/metrics", headers=basic("eve", "right"))
        assert kept.getresponse().read()
        config.write_text(
            "tls_server_config: {cert_file: server.crt, key_file: server.key, client_ca_file: client.crt,"
            " client_auth_type: RequireAndVerifyClientCert}\n"
        )
        kept.request("GET", "/metrics", headers=basic("eve", "right"))
        with pytest.raises((OSError, http.client.HTTPException)):
            kept.getresponse()
        kept.close()
        with pytest.raises((OSError, http.client.HTTPException)):
            running.get(context=trust)
        trust.load_cert_chain(tmp_path / "client.crt", tmp_path / "client.key")
        assert b"rdma_device_info" in running.get(context=trust)


def test_a_wrong_web_configuration_stops_it(installed: Installed, tmp_path: Path) -> None:
    libraries()
    config = tmp_path / "web.yml"
    config.write_text("basic_auth_users: {ann: plain}\n")
    argv = installed.with_options("--web.config.file", str(config)).serve
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    output = "basic_auth_users.ann: it is not a bcrypt hash (htpasswd -nB ann)"
    assert done.stderr == f"Reading {config}: {output}\n"


LOGINS: dict[str, dict[str, str]] = {"right": basic("ann", "right"), "wrong": basic("ann", "wrong"), "none": {}}


def storm(installed: Installed, tmp_path: Path, scrapes: int, slow: int, rewrites: int) -> Storm:
    """Who knows the password gets the metrics, and no one else, whatever other clients and the administrator do."""
    libraries()
    users = [f"ann: '{bcrypt('right')}'", f"eve: '{bcrypt('other')}'"]
    texts = [f"basic_auth_users: {{{', '.join(names)}}}\n" for names in (users, users[:1], users[::-1])]
    config = tmp_path / "web.yml"
    config.write_text(texts[0])
    with exporting(installed.with_options("--web.config.file", str(config)), installed.port):
        load = Storm(installed.port, LOGINS)
        load.run(scrapes, slow, rewrites, texts, config)
    print(
        f"{sum(load.answers.values())} scrapes, {load.slow_connections} connections of {slow} slow clients, "
        f"{load.rewrites} rewrites: {sum(load.wrong().values())} wrong {load.wrong()}, slowest {load.slowest:.2f} s"
    )
    assert load.wrong() == {}
    return load


def test_storm(installed: Installed, tmp_path: Path) -> None:
    storm(installed, tmp_path, 400, 100, 100)


@pytest.mark.long
def test_more_slow_clients_than_connections(installed: Installed, tmp_path: Path) -> None:
    """They come back at once, hundreds of times a second."""
    load = storm(installed, tmp_path, 1_000, 400, 100)
    assert load.slow_connections > 400


@pytest.mark.long
def test_the_whole_storm(installed: Installed, tmp_path: Path) -> None:
    pace = Pace(Others())
    load = storm(installed, tmp_path, 10_000, 200, 1_000)
    # The goal is a second on a quiet machine, and Prometheus gives up after ten.
    assert load.slowest < (1 if pace.share() < QUIET else 10)


# --- what it leaves behind -----------------------------------------------------------------------------


def test_it_goes_when_it_is_told(installed: Installed) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with exporting(installed.with_options(), installed.port) as running:
            running.get()
            for process in running.processes:
                process.send_signal(number)
                assert process.wait(30) == 0


def scrapes(running: Running, number: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    for turn in range(number):
        if turn % 10 == 0:  # some clients keep their connection, some do not
            connection.close()
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        assert connection.getresponse().read()
    connection.close()


def leaks_nothing(running: Running, number: int) -> None:
    scrapes(running, 100)
    memory, descriptors = running.resident(), running.descriptors()
    scrapes(running, number)
    # The connection is closed a moment later.
    wait_for(lambda: running.descriptors() <= descriptors)
    # Arenas of the allocator come and go; a leak of a sample a scrape would be as much.
    assert running.resident() - memory < 2 * 1024 * 1024
    assert running.resident() < 40 * 1024 * 1024


def test_scrapes_leave_nothing_behind(exporter: Running) -> None:
    leaks_nothing(exporter, 300)


@pytest.mark.long
def test_ten_thousand_scrapes_leave_nothing_behind(exporter: Running) -> None:
    leaks_nothing(exporter, 10_000)


def test_devices_that_come_and_go_leave_no_open_files(installed: Installed, tmp_path: Path) -> None:
    tree = node(tmp_path / "sys", 1, 64)
    commands = installed.commands.further(look=["--path.sysfs", str(tree.root)])
    with exporting(commands, installed.port) as running:
        scrapes(running, 3)
        descriptors = running.descriptors()
        aside = tmp_path / "aside"
        for _turn in range(5):
            place = tree.root / "class/infiniband/mlx5_0"
            place.rename(aside)
            scrapes(running, 3)
            assert running.descriptors() < descriptors - 60
            aside.rename(place)
            scrapes(running, 3)
            # A connection may be closed a moment later; a file of the device that stayed open would come five times.
            assert abs(running.descriptors() - descriptors) < 5
        assert os.path.isdir(tree.root)
