# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook run as AWX runs it: fetched by git, installed by AWX's command, and run by ansible-runner in its three steps.

    job = as_awx("playbooks/drift.yml", "inventories/lab/hosts.yml", place=tmp_path, extra_vars={"drift_fail": False})
    job.status, job.results("Look at the nodes"), job.artifacts

What AWX 24.6.1 does is in awx/playbooks/project_update.yml, and in RunProjectUpdate and RunJob of awx/main/tasks/jobs.py.
There is no container here: a directory takes the place of /runner, and a clean environment that of the image's.
Only what is committed is run.
"""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import ansible_runner  # type: ignore[import-untyped]

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION

Json = dict[str, t.Any]

BIN = Path(sys.executable).parent
# What the execution environment has beside ansible-core; `make dev` has put it there.
IMAGE_COLLECTIONS = COLLECTION / ".deps"
# Where AWX looks for what to install; the two last ones hold roles too, and need a Galaxy.
REQUIREMENTS = [
    f"{place}requirements.{ending}" for place in ("collections/", "roles/", "") for ending in ("yml", "yaml")
]
JOB = 42


class Job(t.NamedTuple):
    """How a job ended: what AWX has of it afterwards."""

    status: str
    events: list[Json]
    # Data of set_stats, which AWX keeps as the job's artifacts.
    artifacts: Json
    # What takes the place of /runner.
    container: Path

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]

    def results(self, task: str) -> list[Json]:
        """Return the results of a task, by the end of its name, one for each host."""
        ended = [event["event_data"] for event in self.events if event["event"].startswith("runner_on_")]
        return [data["res"] for data in ended if "res" in data and data["task"].endswith(task)]

    def stdout(self) -> str:
        return "".join(event["stdout"] for event in self.events)

    def told(self) -> str:
        """Return all that AWX gets to know, as one text, to look for a secret in."""
        return json.dumps([self.events, self.artifacts])


def clean(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a container: nothing of the caller's."""
    home.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(BIN), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
    known = {"HOME": str(home), "PATH": path, "LANG": "en_US.UTF-8", "LC_ALL": "C.UTF-8"}
    # `make dev` links the checkout into the interpreter's own path, which no image does.
    return {**known, "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false", **more}


def fetched(place: Path) -> Path:
    """Fetch the repository and install its collections as a project update does; return the project's directory."""
    project, stage = place / "project", place / "stage"
    # Depth needs a URL; what belongs to another user is refused unless it is declared safe.
    url = f"file://{COLLECTION.resolve()}"
    safe = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    git = ["git", "clone", "--quiet", "--depth", "1", url, str(project)]
    _run(git, cwd=place, env=clean(place / "home", **safe))
    galaxy = {
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_COLLECTIONS_PATH": str(stage / "requirements_collections"),
        "ANSIBLE_LOCAL_TEMP": str(stage / "tmp"),
    }
    argv = ["ansible-galaxy", "collection", "install", "-r", str(project / "collections/requirements.yml")]
    printed = _run(argv, cwd=project, env=clean(place / "home", **galaxy))
    assert "was installed successfully" in printed, printed
    return project


def _run(argv: list[str], *, cwd: Path, env: dict[str, str]) -> str:
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{' '.join(argv)}: rc {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def inventory_script(inventory: str | Path, project: Path, home: Path) -> str:
    """Return what AWX gives a job for an inventory: a program that prints what was imported before."""
    argv = ["ansible-inventory", "-i", str(inventory), "--list", "--export"]
    imported = json.loads(_run(argv, cwd=project, env=clean(home)))
    return f"#!/usr/bin/env python3\nprint({json.dumps(imported)!r})\n"


def job_environment(project: Path, container: Path) -> dict[str, str]:
    """Return the environment that RunJob.build_env makes, with what it takes over from the project's ansible.cfg."""
    parser = configparser.ConfigParser()
    parser.read(project / "ansible.cfg")
    configured = dict(parser["defaults"]) if "defaults" in parser else {}
    collections = [str(container / "requirements_collections"), "~/.ansible/collections", str(IMAGE_COLLECTIONS)]
    if "collections_path" in configured:
        collections.insert(1, configured["collections_path"])
    environment = {
        "ANSIBLE_FORCE_COLOR": "True",
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "ANSIBLE_PARAMIKO_RECORD_HOST_KEYS": "False",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join(collections),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(container / "cp"),
        "AWX_HOST": "https://awx.example.org",
        "JOB_ID": str(JOB),
        "INVENTORY_ID": "1",
        "MAX_EVENT_RES": "700000",
    }
    # 24.6.1 leaves it to ansible-playbook to read the file; releases after it read it and add callbacks of their own.
    if "callbacks_enabled" in configured:
        environment["ANSIBLE_CALLBACKS_ENABLED"] = configured["callbacks_enabled"]
    return environment


def arguments(*, check: bool, diff: bool, limit: str, forks: int) -> str:
    """Return the command line that RunJob.build_args makes; ansible-runner adds the extra variables."""
    words = ["--check"] if check else []
    words += ["-u", "root"]
    words += ["--diff"] if diff else []
    words += [f"--forks={forks}"] if forks else []
    words += ["-l", limit] if limit else []
    return " ".join(words)


def as_awx(
    playbook: str,
    inventory: str | Path,
    *,
    place: Path,
    check: bool = True,
    diff: bool = True,
    limit: str = "",
    forks: int = 0,
    extra_vars: t.Mapping[str, t.Any] | None = None,
    environment: t.Mapping[str, str] | None = None,
    files: t.Mapping[str, str] | None = None,
    timeout: float = 1200,
) -> Job:
    """Run a playbook of the repository, by its path in it, and return what AWX gets to know.

    ``inventory`` is a path in the repository or an absolute one, ``environment`` what a credential adds, and ``files`` are
    further files of the project. ``place`` is an empty directory.
    """
    project = fetched(place)
    data, container, home = place / "data", place / "runner", place / "home"
    for directory in (data / "env", data / "inventory", data / "cp", container):
        directory.mkdir(parents=True)
    shutil.copytree(project, data / "project", ignore=shutil.ignore_patterns(".git"), symlinks=True)
    for name, content in (files or {}).items():
        (data / "project" / name).write_text(content)
    shutil.copytree(place / "stage" / "requirements_collections", data / "requirements_collections", symlinks=True)
    script = data / "inventory" / "hosts"
    script.write_text(inventory_script(inventory, project, home))
    script.chmod(0o700)
    known = {"awx_job_id": JOB, "awx_job_launch_type": "manual", "awx_inventory_name": "site", **(extra_vars or {})}
    (data / "env" / "extravars").write_text(json.dumps(known))
    (data / "env" / "cmdline").write_text(arguments(check=check, diff=diff, limit=limit, forks=forks))
    (data / "env" / "settings").write_text(json.dumps({"job_timeout": timeout, "suppress_ansible_output": True}))
    sent, answered = place / "sent", place / "answered"
    with sent.open("wb") as sink:
        ansible_runner.run(
            streamer="transmit",
            _output=sink,
            private_data_dir=str(data),
            ident=JOB,
            playbook=playbook,
            # It is sent as inventory/hosts.
            inventory=str(script),
            envvars={**job_environment(project, container), **(environment or {})},
            suppress_env_files=True,
            fact_cache_type="",
        )
    with sent.open("rb") as source, answered.open("wb") as sink:
        worker = [str(BIN / "ansible-runner"), "worker", f"--private-data-dir={container}"]
        # Its exit status is that of the job, which the third step reports too.
        subprocess.run(worker, stdin=source, stdout=sink, env=clean(home), cwd=place, timeout=timeout + 60, check=False)
    events: list[Json] = []
    with answered.open("rb") as source:
        ended = ansible_runner.run(
            streamer="process",
            _input=source,
            quiet=True,
            private_data_dir=str(data),
            ident=JOB,
            event_handler=events.append,
        )
    artifacts: Json = {}
    for event in events:
        artifacts.update(event["event_data"].get("artifact_data") or {})
    return Job(ended.status, events, artifacts, container)


__all__ = ["JOB", "REQUIREMENTS", "Job", "as_awx", "clean", "fetched"]
