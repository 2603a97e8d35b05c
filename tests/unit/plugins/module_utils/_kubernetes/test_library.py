# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The library's parts, in processes of their own: an import is remembered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import library

BEGIN = """
import sys
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import library as one
def loaded(): return sorted(name for name in sys.modules if name.split(".")[0] == "kubernetes")
"""
KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t0"}}],
}
READ = f"""
made = one.parts().configuration()
one.parts().config.load_kube_config_from_dict({KUBECONFIG!r}, client_configuration=made)
assert made.host == "http://127.0.0.1:1"
assert [auth["value"] for auth in made.auth_settings().values()] == ["Bearer t0"]
assert one.parts().rest_client(made).pool_manager
"""

# what is done: each works on a kubeconfig, too
CASES = {
    "nothing of the models, and the library is whole for whoever comes after": """
parts = one.parts()
assert loaded() == [], loaded()
assert one.parts() is parts
assert not {"oauthlib", "requests_oauthlib"} & set(sys.modules)
import kubernetes, requests_oauthlib
assert parts.config.kube_config.OAuth2Session is not requests_oauthlib.OAuth2Session
assert kubernetes.client.V1Pod and kubernetes.client.Configuration is not parts.configuration
""",
    "what is there already": """
import kubernetes
assert one.parts().configuration is kubernetes.client.Configuration
""",
    "a release whose parts are elsewhere": """
one._bare = lambda name: 1 / 0
parts = one.parts()
assert "kubernetes.client.models" in loaded()
""",
    "a token of OpenID Connect is renewed by the library's own client": """
parts = one.parts()
made = parts.config.kube_config.ApiClient(configuration=parts.configuration())
from kubernetes.client import ApiClient
assert type(made) is ApiClient
import oauthlib.oauth2, requests_oauthlib
wrong = parts.config.kube_config.oauthlib.oauth2.rfc6749.errors.InvalidClientIdError
assert wrong is oauthlib.oauth2.rfc6749.errors.InvalidClientIdError
session = parts.config.kube_config.OAuth2Session(client_id="c", token={"refresh_token": "r"})
assert type(session) is requests_oauthlib.OAuth2Session
""",
}


@pytest.mark.parametrize("case", CASES)
def test_parts(case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + CASES[case] + READ], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_there_is_no_library() -> None:
    hidden = BEGIN + "sys.path[:] = [one for one in sys.path if 'site-packages' not in one]\none.parts()"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=120, check=False)
    assert "ModuleNotFoundError: No module named 'kubernetes'" in done.stderr


def test_what_is_said_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library.platform, "node", lambda: "cp-1")
    monkeypatch.setattr(library.sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr(library.sys, "prefix", sys.base_prefix)
    exc = ImportError("No module named 'kubernetes'")
    assert library.missing(exc) == (
        "The Python library kubernetes is missing for /usr/bin/python3 on cp-1 (No module named 'kubernetes'). Install it: "
        "/usr/bin/python3 -m pip install kubernetes, or the package python3-kubernetes of the distribution if that is 24.2.0 or newer. "
        "If another interpreter of this host has it, set ansible_python_interpreter to its path"
    )
    monkeypatch.setattr(library.sys, "prefix", "/opt/ansible")
    assert "pip install kubernetes. If another interpreter" in library.missing(exc)
