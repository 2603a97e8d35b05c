# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of a module or role that may carry a secret is kept out of logs, by its name."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import argument_spec

Spec = t.Mapping[str, t.Any]

MODULES = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py"))
ROLES = sorted(path.parts[-3] for path in COLLECTION.glob("roles/*/meta/argument_specs.yml"))
SECRET = re.compile(
    r"token|passw|passphrase|secret|credential|key|auth|header|private|login|kubeconfig|community", re.I
)

# Whose names look like it, and why they carry no secret.
NONE = {
    # Names and paths of where a secret is.
    r".*(client_key|auth_file|key_file)": "the path of a file",
    r"kubernetes_kubeconfig(_dest)?": "the path of a file",
    r"cni_install: kubeconfigs": "what is written into them comes in by tokens",
    r"awx_(galaxy_credentials|project_credential|credentials|execution_environment_credential)": "names of credentials",
    r"rdma_exporter_tls_secret|training_(job|runtime)_pull_secrets|training_job_volumes\.secret": "names of Secrets",
    r"switch_telemetry_targets\.credentials": "the name of an entry of switch_telemetry_credentials",
    r"kubernetes_package_key": "a public key's address",
    r"kubernetes_kubeconfig_server": "an address",
    # Kinds of switches and times.
    r".*token_(id|ttl|lifetime|renew_before)": "the public half of a bootstrap token, and times",
    r".*update_secrets": "whether to write them",
    r".*pkey": "an InfiniBand partition",
}


def options(spec: Spec, where: str = "") -> t.Iterator[tuple[str, Spec]]:
    for name, option in spec.items():
        yield where + name, option
        yield from options(option.get("options") or {}, f"{where}{name}.")


def open_to_all(options: t.Iterable[tuple[str, Spec]], prefix: str) -> list[str]:
    """Return the options with the name of a secret that would be shown."""
    return [
        name
        for name, option in options
        if SECRET.search(name.rsplit(".", 1)[-1])
        and option.get("no_log") is not True
        and not any(re.fullmatch(rf"({pattern})", name) or re.fullmatch(pattern, prefix + name) for pattern in NONE)
    ]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_to_all(options(argument_spec(name, monkeypatch)), f"{name}: ") == []


@pytest.mark.parametrize("name", ROLES)
def test_roles(name: str) -> None:
    file = COLLECTION / "roles" / name / "meta/argument_specs.yml"
    specs = yaml.safe_load(file.read_text())["argument_specs"]
    for point in specs.values():
        assert open_to_all(options(point.get("options") or {}), "") == []


def test_the_search_finds_what_is_open() -> None:
    spec: Spec = {"a": {"options": {"password": {"type": "str"}, "pkey": {}}}, "api_token": {"no_log": False}}
    assert open_to_all(options(spec), "x: ") == ["a.password", "api_token"]
