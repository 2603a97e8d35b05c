# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubernetes_problems
short_description: Find options of the role kubernetes that cannot work or are not safe
version_added: 0.1.0
description:
  - Checks where the role P(rdmaops.gpu_fabric.kubernetes#role) gets programs, images and the pod network from, before
    anything is changed. Nothing is read but the options.
author:
  - rdmaops contributors (@rdmaops)
positional: sources
options:
  _input:
    description:
      - Options of the role by their names - C(kubernetes_pod_network), C(kubernetes_pod_network_manifest),
        C(kubernetes_pod_network_checksum), C(kubernetes_kubeconfig_dest), C(kubernetes_source),
        C(kubernetes_package_repository), C(kubernetes_package_key) and C(kubernetes_registry_mirrors).
    type: dict
    required: true
  sources:
    description: What the source V(archive) downloads, each with C(name), C(url) and C(checksum).
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Check the options
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join(' ') }}"
  vars:
    problems: "{{ options | rdmaops.gpu_fabric.kubernetes_problems(sources) }}"
"""

RETURN = r"""
_value:
  description: A sentence for each problem, with what solves it.
  type: list
  elements: str
"""

import os.path
import re
import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._fetch import SHA256

Options = t.Mapping[str, t.Any]


def _manifest_problems(options: Options) -> t.Iterator[str]:
    """Yield what is missing to apply the manifest of a pod network."""
    if options["kubernetes_pod_network"] != "manifest":
        return
    manifest = options["kubernetes_pod_network_manifest"]
    if not manifest:
        yield (
            "kubernetes_pod_network_manifest must name the manifest of a pod network, as a file on the controller or "
            "by its address."
        )
    if re.match("https?://", manifest) and not SHA256.match(options["kubernetes_pod_network_checksum"]):
        yield (
            "kubernetes_pod_network_checksum must be sha256: and the digest of the manifest that you have looked at: "
            "`curl -fsSL %s | sha256sum` prints it." % manifest
        )
    if not options["kubernetes_kubeconfig_dest"]:
        yield "kubernetes_pod_network manifest needs kubernetes_kubeconfig_dest: the controller applies it."


def _download_problems(options: Options, sources: t.Iterable[t.Mapping[str, str]]) -> t.Iterator[str]:
    """Yield downloads that nothing would verify."""
    if (
        options["kubernetes_source"] == "packages"
        and options["kubernetes_package_repository"]
        and not options["kubernetes_package_key"]
    ):
        yield (
            "kubernetes_package_repository needs kubernetes_package_key, a file on the controller with the key that "
            "signs it."
        )
    for registry, mirrors in options["kubernetes_registry_mirrors"].items():
        plain_http = [mirror for mirror in mirrors if re.match("(?i)http://", mirror)]
        if plain_http:
            yield (
                "kubernetes_registry_mirrors has %s for %s: nodes pull by tags, and over plain http nothing verifies "
                "what comes. Give an https:// address." % (", ".join(plain_http), registry)
            )
    for source in sources if options["kubernetes_source"] == "archive" else ():
        name, url = source["name"], source["url"]
        option = "kubernetes_cni_plugins_checksum" if name == "cni-plugins" else "kubernetes_checksums.%s" % name
        if not SHA256.match(source["checksum"]):
            yield (
                "%s must be sha256: and the digest of %s: `curl -fsSL %s | sha256sum` prints it, on a machine and "
                "network that you trust." % (option, os.path.basename(url), url)
            )


def kubernetes_problems(options: Options, sources: t.Iterable[t.Mapping[str, str]]) -> list[str]:
    """Return what is wrong with the options."""
    try:
        return [*_manifest_problems(options), *_download_problems(options, sources)]
    except (AttributeError, KeyError, TypeError) as exc:
        raise AnsibleFilterError("kubernetes_problems: the input is not the options of the role: %r" % exc) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"kubernetes_problems": kubernetes_problems}
