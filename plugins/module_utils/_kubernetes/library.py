# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The parts of the Python library kubernetes that read a kubeconfig and log in, without its models of every object.

``import kubernetes`` imports a thousand modules that are made from the API's description: half a second of a processor
in each module's process (kubernetes 37.0.2), for classes that nothing here uses. What it renews tokens of OpenID
Connect with, oauthlib and requests-oauthlib, is imported where one is renewed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import platform
import sys
import types
import typing as t


class Parts(t.NamedTuple):
    """What is used of the library."""

    configuration: t.Any
    rest_client: t.Any
    config: t.Any


def _names() -> list[str]:
    return [name for name in sys.modules if name.split(".")[0] == "kubernetes"]


def _api_client(*arguments: t.Any, **options: t.Any) -> t.Any:
    """Stand in for ApiClient, which the library takes to renew a token of OpenID Connect."""
    from kubernetes import client

    return client.ApiClient(*arguments, **options)


class _Later(types.ModuleType):
    """Stands in for a module of which nothing is needed yet; the first use of it is one of the module itself."""

    def __getattr__(self, name: str) -> t.Any:
        if name.startswith("__"):  # what the import system asks
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def _session(*arguments: t.Any, **options: t.Any) -> t.Any:
    """Stand in for OAuth2Session, for the same use."""
    from requests_oauthlib import OAuth2Session

    return OAuth2Session(*arguments, **options)


def _later() -> list[str]:
    """Put stand-ins in place of what a token is renewed with. Return their names."""
    names = ["requests_oauthlib", "oauthlib", "oauthlib.oauth2"]
    if any(name in sys.modules for name in names):
        return []
    for name in names:
        sys.modules[name] = _Later(name)
    vars(sys.modules["requests_oauthlib"])["OAuth2Session"] = _session
    return names


def _bare(name: str) -> t.Any:
    """Put a package in place whose own code does not run, so that its modules can be imported one by one."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError("no package %s" % name)
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    return package


def _alone() -> Parts:
    stand_ins = _later()
    try:
        _bare("kubernetes")
        client = _bare("kubernetes.client")
        # Of which client.rest needs how connections are kept alive and tried again, from release 37 on.
        _bare("kubernetes.utils")
        from kubernetes.client.configuration import Configuration
        from kubernetes.client.rest import RESTClientObject

        client.Configuration, client.ApiClient = Configuration, _api_client
        from kubernetes import config

        return Parts(Configuration, RESTClientObject, config)
    finally:
        # A later import of the library is complete.
        for name in [*_names(), *stand_ins]:
            del sys.modules[name]


@functools.lru_cache(maxsize=None)
def parts() -> Parts:
    """Return them; ImportError if the library is missing."""
    if not _names():
        try:
            return _alone()
        except Exception:
            # A release whose parts lean on each other in another way, or no library: the import below takes it whole,
            # or says itself what is wrong. Nothing is lost but time.
            pass
    from kubernetes import client, config
    from kubernetes.client.rest import RESTClientObject

    return Parts(client.Configuration, RESTClientObject, config)


def missing(exc: ImportError) -> str:
    """Return how to install the library for the interpreter that runs this module."""
    package = ""
    # A virtual environment does not see the packages of the distribution.
    if sys.prefix == sys.base_prefix:
        package = ", or the package python3-kubernetes of the distribution if that is 24.2.0 or newer"
    return (
        "The Python library kubernetes is missing for %s on %s (%s). Install it: %s -m pip install kubernetes%s. If "
        "another interpreter of this host has it, set ansible_python_interpreter to its path"
        % (sys.executable, platform.node(), exc, sys.executable, package)
    )


__all__ = ("Parts", "missing", "parts")
