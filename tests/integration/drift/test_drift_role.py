# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks drift and drift_merge and their role, as a user runs them. The nodes are this machine, or nowhere."""

from __future__ import annotations

import json
import ssl
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.publish import send
from ansible_collections.rdmaops.gpu_fabric.plugins.plugin_utils._drift.report import validate
from ansible_collections.rdmaops.gpu_fabric.tests.lab.certificates import Authority
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_root
from ansible_collections.rdmaops.gpu_fabric.tests.support.drift import Json, Place, Ran, closed_port, copy
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.http_server import Answer, Request, Server
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

DRIFT = "rdmaops.gpu_fabric.drift"
MERGE = "rdmaops.gpu_fabric.drift_merge"
TOKEN = "Xk7-hunter2-Qz9"
OPTION = "rdmaops_drift"
# What needs nothing that this machine lacks, and changes nothing that it has.
HARMLESS: Json = {
    "gpu_node_on_absent": "ignore",
    "gpu_node_container_runtime": "none",
    "gpu_node_packages": {name: ["coreutils"] for name in ("debian", "rhel", "fedora")},
}
JUDGE: Json = {"name": "Judge", "hosts": "localhost", "roles": [DRIFT]}


def inventory(place: Place, **groups: Json) -> None:
    """Write an inventory of groups with hosts and their variables."""
    hosts = {name: {"hosts": hosts} for name, hosts in groups.items()}
    common = {"place": str(place.path), "ansible_python_interpreter": "{{ ansible_playbook_python }}", **HARMLESS}
    (place.path / "hosts").write_text(json.dumps({"all": {"vars": common, "children": hosts}}))


def here(**variables: t.Any) -> Json:
    return {"ansible_connection": "local", **variables}


def nowhere() -> Json:
    return {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": closed_port()}


def variables(**given: t.Any) -> list[str]:
    return ["-e", json.dumps({f"drift_{name}": value for name, value in given.items()})]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "collection").mkdir()
    result = Place(tmp_path / "collection", [])
    (result.path / "a").write_text("x\n")
    return result


# --- what is looked at --------------------------------------------------------------------------------------------


def test_every_role_of_site_is_compared() -> None:
    """But those that measure and reboot, which the playbook says why."""

    def plays(name: str) -> list[Json]:
        return t.cast("list[Json]", yaml.safe_load((COLLECTION / f"playbooks/{name}.yml").read_text()))

    playbooks = ("nodes", "kubernetes", "cluster")
    roles = [role["role"] for name in playbooks for play in plays(name) for role in play.get("roles", ())]
    files = [COLLECTION / f"roles/drift/tasks/{part}.yml" for part in (*playbooks, "operator")]
    tasks = [task for file in files for task in yaml.safe_load(file.read_text())]
    looks = [task for task in tasks if task.get("ansible.builtin.import_tasks") == "look.yml"]
    assert [f"rdmaops.gpu_fabric.{task['vars']['__drift_role']}" for task in looks] == roles
    # Its own play looks whether AWX's workflow approved what runs.
    names = [play.get("ansible.builtin.import_playbook") for play in plays("site")]
    imported = [Path(name).stem for name in names if name]
    assert set(imported) - set(playbooks) == {"reboot", "verify"}


def test_drift_is_told_published_and_left_alone(place: Place, tmp_path: Path) -> None:
    """One node is as it should be, one has drifted, one cannot be looked at and one is not there."""
    need_root()
    nodes = {
        "gpu-1": here(),
        "gpu-2": here(gpu_node_module_options={OPTION: {"answer": 42}}, rails=[{"rdma": "mlx5_0"}]),
        "gpu-3": here(gpu_node_on_conflict="perhaps"),
        "gpu-4": nowhere(),
    }
    inventory(place, gpu_nodes=nodes)
    ran = place.run(DRIFT, "--check", "--diff", *variables(publish="path", path=str(tmp_path), run="night", job="7"))
    assert ran.rc == 2, ran.output
    statuses = {"gpu-1": "in_sync", "gpu-2": "drift", "gpu-3": "unknown", "gpu-4": "unknown"}
    assert ran.hosts() == statuses, ran.output
    drifted = [row for row in ran.rows("gpu-2") if row["status"] == "drift"]
    assert [(row["role"], row["name"], row["desired"], row["live"]) for row in drifted] == [
        ("rdmaops.gpu_fabric.gpu_node", f"{OPTION}.answer", "42", None),
        ("rdmaops.gpu_fabric.drift", "mlx5_0", "the host, or a running pod", "nowhere"),
    ]
    assert "answer=42" in drifted[0]["diff"]
    assert "value of on_conflict" in ran.whys("gpu-3")[0] or "gpu_node_on_conflict" in ran.whys("gpu-3")[0]
    assert "could not be reached" in ran.whys("gpu-4")[0]
    assert ran.report["complete"] is True
    assert "The verdict is drift: 2 drift, " in ran.output
    published = json.loads((tmp_path / "night/7.json").read_text())
    assert (published["verdict"], published["hosts"]) == ("drift", ran.report["hosts"])
    assert "gpu-2" in (tmp_path / "night/7.html").read_text()
    assert not list(Path("/etc/modprobe.d").glob(f"*{OPTION}*"))


def test_where_nothing_can_be_looked_at_the_verdict_is_given(place: Place, tmp_path: Path) -> None:
    """Neither a play whose every host fails nor an API host that is not there ends the run before that."""
    need_root()
    inventory(place, gpu_nodes={"gpu-1": here(gpu_node_on_conflict="perhaps")}, kubernetes_api={"api": nowhere()})
    ran = place.run(DRIFT, "--check", *variables(publish="path", path=str(tmp_path), run="night", job="7"))
    assert ran.rc == 2, ran.output
    assert "The verdict is unknown: " in ran.output
    published = json.loads((tmp_path / "night/7.json").read_text())
    statuses = {host: entry["status"] for host, entry in published["hosts"].items()}
    assert statuses == {"gpu-1": "unknown", "api": "unknown"}
    whys = " ".join(row["why"] or "" for row in published["hosts"]["gpu-1"]["objects"])
    assert "on_conflict" in whys
    assert "could not be reached" in whys


def test_without_check_it_refuses(place: Place) -> None:
    inventory(place, gpu_nodes={"gpu-1": nowhere()})
    ran = place.run(DRIFT)
    assert ran.rc == 2
    assert "Looking for drift: this run is not in check mode, and would change what it finds. Nothing was" in ran.output
    assert "Compare the GPU nodes" not in ran.output
    assert ran.report["hosts"]["localhost"]["status"] == "unknown"
    # A limit leaves the play on localhost out. Each play asks for itself.
    ran = place.run(DRIFT, "--limit", "gpu-1")
    assert ran.rc == 2
    assert "this run is not in check mode" in ran.output
    assert "Reach the host" not in ran.output


def test_a_part_by_its_tag(place: Place) -> None:
    inventory(place, gpu_nodes={"gpu-1": nowhere()}, kubernetes_api={"api": nowhere()})
    ran = place.run(DRIFT, "--check", "--tags", "cluster", *variables(fail=False))
    assert ran.rc == 0, ran.output
    assert list(ran.report["hosts"]) == ["gpu-1", "api"]
    assert {row["task"] for row in ran.rows("gpu-1")} == {"Reach the host"}
    assert "Find stranded devices" not in ran.output
    assert ran.report["complete"] is True


def test_without_the_callback_it_refuses_before_anything_is_looked_at(place: Place) -> None:
    inventory(place, gpu_nodes={"gpu-1": nowhere()})
    (place.path / "ansible.cfg").write_text("[defaults]\n")
    ran = place.run(DRIFT, "--check")
    assert ran.rc == 2
    assert "ANSIBLE_CALLBACKS_ENABLED=rdmaops.gpu_fabric.drift" in ran.output
    assert "Reach the host" not in ran.output


@pytest.mark.long
def test_a_report_that_the_callback_cannot_write_keeps_no_verdict_back(place: Place, tmp_path: Path) -> None:
    inventory(place, gpu_nodes={"gpu-1": nowhere()})
    (tmp_path / "file").touch()
    ran = place.run(DRIFT, "--check", *variables(fail=False), RDMAOPS_DRIFT_REPORT=f"{tmp_path}/file/x.json")
    assert ran.rc == 2
    assert f"Writing {tmp_path}/file/x.json: " in ran.output
    assert "The verdict is unknown: 0 drift, 1 unknown, 0 in sync, on 1 hosts; gpu-1: " in ran.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": "last Night"}, "drift_run is 'last Night'. It must be at most 63 lower case letters, digits and '-'"),
        ({"publish": "url"}, "Publishing the drift report: drift_publish is url, and drift_url is empty. Set it."),
        pytest.param({"publish": "mail"}, "got: mail", marks=pytest.mark.long),
    ],
)
def test_bad_values_are_refused_before_anything_is_looked_at(place: Place, given: Json, said: str) -> None:
    inventory(place, gpu_nodes={"gpu-1": nowhere()})
    ran = place.run(DRIFT, "--check", *variables(**given))
    assert ran.rc == 2
    assert said in " ".join(ran.output.split())
    assert "Reach the host" not in ran.output


# --- a directory --------------------------------------------------------------------------------------------------


def look(place: Place, host: str, *extra: str) -> Ran:
    """Look at a file on a host, and judge by the role."""
    inventory(place, gpu_nodes={host: here()})
    place.write({"name": "Look", "hosts": "gpu_nodes", "tasks": [copy("a")]}, JUDGE)
    return place.run(str(place.path / "play.yml"), "--check", "--diff", *extra)


def test_slices_in_a_directory_are_merged(place: Place, tmp_path: Path) -> None:
    shared = {"publish": "path", "path": str(tmp_path / "shared")}
    for number, host in enumerate(("gpu-1", "gpu-2")):
        # What AWX sets in each slice, which is a job of a workflow.
        jobs = ["-e", json.dumps({"awx_workflow_job_id": 4711, "awx_job_id": 4712 + number})]
        assert look(place, host, *variables(**shared), *jobs).rc == 0
    slices = sorted((tmp_path / "shared/4711").glob("*.json"))
    assert [path.name for path in slices] == ["4712.json", "4713.json"]

    ran = place.run(MERGE, *variables(**shared, run="4711", slices=2))
    assert ran.rc == 0, ran.output
    merged = validate(json.loads((tmp_path / "shared/4711.json").read_text()), "the report")
    assert (merged["verdict"], list(merged["hosts"])) == ("in_sync", ["gpu-1", "gpu-2"])
    assert (tmp_path / "shared/4711.html").exists()

    # One slice has not published: its hosts are in no report.
    ran = place.run(MERGE, *variables(**shared, run="4711", slices=3))
    assert ran.rc == 2
    assert "there are 2 reports, but slices is 3" in ran.output

    (tmp_path / "shared/4711/again.json").write_text(slices[0].read_text())
    ran = place.run(MERGE, *variables(**shared, run="4711"))
    assert ran.rc == 2
    assert "Merging drift reports: host gpu-1 is in " in ran.output

    # A report of another release is told of, and the verdict on the others too.
    other = json.loads(slices[0].read_text())
    (tmp_path / "shared/4711/again.json").write_text(json.dumps({**other, "schema": 2}))
    ran = place.run(MERGE, *variables(**shared, run="4711"))
    assert ran.rc == 2
    assert f"Reading the drift report {tmp_path}/shared/4711/again.json: it has schema 2" in ran.output
    assert "The verdict is unknown: 0 drift, 0 unknown, 2 in sync, on 2 hosts" in ran.output

    ran = place.run(MERGE, *variables(**shared, run="4714"))
    assert ran.rc == 2
    advice = f"there are none in {tmp_path}/shared/4714. Publish the report of every slice"
    assert advice in " ".join(ran.output.split())


def test_a_directory_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = look(place, "gpu-1", *variables(publish="path", path=str(tmp_path / "file"), run="night"))
    assert ran.rc == 2
    assert f"Writing {tmp_path}/file/night/local.json: Not a directory" in ran.output
    assert "The verdict is in_sync: 0 drift, 0 unknown, 1 in sync, on 1 hosts" in ran.output


# --- a URL --------------------------------------------------------------------------------------------------------


class Taking(Server):
    """Takes reports, and answers as it was told; server_close() waits for the threads that do."""

    daemon_threads = False

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(context=context)
        self.status = 201
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.requests: list[Request] = []

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        self.may_answer.wait(60)
        # As careless servers do.
        output = f"no such user: {request.headers.get('Authorization', '')}" if self.status >= 400 else ""
        return Answer(self.status, output.encode(), {"Location": "http://127.0.0.1:9/elsewhere"})

    def __exit__(self, *exc: object) -> None:
        self.may_answer.set()
        super().__exit__(*exc)


def wanted(server: Taking, **more: t.Any) -> Json:
    url = f"{server.url.replace('//', f'//joe:{TOKEN}@')}/drift/night.json?key={TOKEN}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return {"url": url, "method": "PUT", "headers": headers, "ca_path": None, "timeout": 60, **more}


def test_a_report_is_sent_and_no_secret_told(place: Place) -> None:
    (place.path / "b").write_text("y\n")
    with Taking() as server:
        given = {"publish": "url", "url": wanted(server)["url"], "url_headers": wanted(server)["headers"]}
        # A file, because the output of -vvv has the command line.
        (place.path / "v.json").write_text(json.dumps({f"drift_{name}": value for name, value in given.items()}))
        ran = look(place, "gpu-1", "-vvv", "-e", f"@{place.path}/v.json")
        assert ran.rc == 0, ran.output
        (request,) = server.requests
        assert (request.method, request.path) == ("PUT", f"/drift/night.json?key={TOKEN}")
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["Authorization"] == f"Bearer {TOKEN}"
        report = validate(json.loads(request.body), "the report")
        assert (report["verdict"], report["hosts"]) == ("in_sync", ran.report["hosts"])
        assert TOKEN not in ran.output

        server.status = 401
        ran = look(place, "gpu-1", "-vvv", "-e", f"@{place.path}/v.json")
        assert ran.rc == 2
        address = f"{server.url}/drift/night.json"
        assert f"Publishing the drift report at {address}: it answered 401 (Unauthorized): " in ran.output
        assert "Give credentials that may write there, in headers. The verdict is in_sync" in ran.output
        assert TOKEN not in ran.output


@pytest.mark.parametrize(
    ("status", "timeout", "said"),
    [
        (500, 60, "it answered 500 (Internal Server Error): no such user: ********"),
        (405, 60, "It does not take PUT: give another method"),
        (307, 60, "Redirects are not followed: give the address that it names"),
        (None, 1, "timed out. It did not answer in 1 s: raise timeout, or check the server"),
    ],
)
def test_a_server_that_does_not_take_it(status: int | None, timeout: int, said: str) -> None:
    with Taking() as server:
        if status is None:
            server.may_answer.clear()
        else:
            server.status = status
        message = message_of(FabricError, send, {"hosts": {}}, wanted(server, timeout=timeout))
        assert said in message
        assert message.startswith(f"Publishing the drift report at {server.url}/drift/")
        assert TOKEN not in message
        wait_for(lambda: server.requests)
    assert len(server.requests) == 1


def test_the_servers_certificate_is_checked(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    authority.keep("server", authority.server("server", ["127.0.0.1"]))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    with Taking(context) as server:
        message = message_of(FabricError, send, {"hosts": {}}, wanted(server))
        assert "CERTIFICATE_VERIFY_FAILED" in message
        assert message.endswith("Give the CA that signed its certificate in ca_path")
        assert server.requests == []
        address = send({"hosts": {}}, wanted(server, ca_path=str(authority.file), method="POST"))
        assert address == f"{server.url}/drift/night.json"
        assert [(request.method, request.body) for request in server.requests] == [("POST", b'{\n "hosts": {}\n}\n')]


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{closed_port()}/x"
    options = {"url": url, "method": "PUT", "headers": {}, "ca_path": None, "timeout": 10}
    message = message_of(FabricError, send, {"hosts": {}}, options)
    assert message.startswith(f"Publishing the drift report at {url}: ")
    assert message.endswith("Connection refused. Is this its address, and is it running?")
