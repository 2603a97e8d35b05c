# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: switch_problems
short_description: Find what cannot work in a list of switches
version_added: 0.1.0
description:
  - Checks what the role P(rdmaops.gpu_fabric.switch_telemetry#role) is to subscribe to, before anything is written.
author:
  - rdmaops contributors (@rdmaops)
options:
  _input:
    description: The switches, as in C(switch_telemetry_targets).
    type: list
    elements: dict
    required: true
  vendors:
    description: All types of switches by name, those of the role and those of the site.
    type: dict
    required: true
  credentials:
    description: Users by name, each a dictionary with C(username) and C(password). Their values are in no message.
    type: dict
    default: {}
  sample_interval:
    description: Seconds between two samples of a switch that has no C(sample_interval).
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Check the switches
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('; ') }}"
  vars:
    problems: "{{ switches | rdmaops.gpu_fabric.switch_problems(vendors=vendors, credentials=credentials) }}"
"""

RETURN = r"""
_value:
  description: A sentence for each problem, without a full stop.
  type: list
  elements: str
  sample: ["leaf-1: ports is empty; name the ports that belong to the fabric"]
"""

import re
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

Json = t.Any

TLS_OPTIONS = ("ca_file", "cert_file", "server_name")


def _name_problems(name: str, names: t.Sequence[str]) -> t.Iterator[str]:
    """Yield what is wrong with a switch's name, among the names of all in lower case."""
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", name):
        yield "a name must consist of letters, digits, dots, hyphens and underscores"
    if names.count(name.lower()) > 1:
        yield "the name is used twice; gNMIc ignores case"


def _source_problems(switch: Json, vendors: Json, credentials: Json, sample_interval: Json) -> t.Iterator[str]:
    """Yield what is wrong with where a switch's values come from: its address, type, ports and user."""
    vendor = switch.get("vendor", "openconfig")
    user = switch.get("credentials")
    if not re.fullmatch("[A-Za-z0-9.:_-]+", str(switch["address"])):
        yield "address is %s; give a name or an address without a port" % switch["address"]
    if vendor not in vendors:
        known = ", ".join(sorted(vendors))
        yield "vendor is %s; known are %s, and what switch_telemetry_vendors adds" % (vendor, known)
    if not switch["ports"]:
        yield "ports is empty; name the ports that belong to the fabric"
    for port in switch["ports"]:
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9/._:-]*", str(port)):
            yield "%s is not a valid port name" % port
    if int(switch.get("sample_interval", sample_interval)) < 1:
        yield "sample_interval is at least 1 second"
    if user and user not in credentials:
        yield "switch_telemetry_credentials has no %s" % user


def _tls_problems(switch: Json) -> t.Iterator[str]:
    """Yield contradictions between a switch's options on TLS."""
    unverified = boolean(switch.get("skip_verify", False))
    if ("cert_file" in switch) != ("key_file" in switch):
        yield "cert_file and key_file belong together"
    if boolean(switch.get("insecure", False)) and (unverified or any(option in switch for option in TLS_OPTIONS)):
        yield "insecure disables TLS, so skip_verify, ca_file, cert_file and server_name have no meaning"
    if unverified and "ca_file" in switch:
        yield "with skip_verify, ca_file is not used; choose one of them"


def _credential_problems(credentials: Json) -> t.Iterator[str]:
    """Yield names that cannot be part of a variable's name, and values that an environment file cannot have."""
    for name in credentials:
        if not re.fullmatch("[a-z][a-z0-9_]*", str(name)):
            yield "switch_telemetry_credentials: %s must consist of lower case letters, digits and underscores" % name
    for field in ("username", "password"):
        for name, account in credentials.items():
            if re.search("[\n\r]", str(account.get(field, ""))):
                yield "SWITCH_TELEMETRY_%s_%s has more than one line" % (str(name).upper(), field.upper())


def _vendor_problems(vendors: Json) -> t.Iterator[str]:
    """Yield what is wrong with the paths of types of switches."""
    for name, vendor in vendors.items():
        paths = [entry.get("path") or "" for entry in vendor.get("paths", ())]
        for path in paths:
            if "PORT" not in path or "$" in path:
                yield (
                    "switch_telemetry_vendors: %s: a path has PORT where the port's name belongs, and no dollar sign"
                    % name
                )
        if not paths:
            yield "switch_telemetry_vendors: %s has no paths" % name


def _problems(switches: Json, vendors: Json, credentials: Json, sample_interval: Json) -> t.Iterator[str]:
    """Yield all problems."""
    names = [str(switch["name"]).lower() for switch in switches]
    if not switches:
        yield "switch_telemetry_targets is empty: name the switches"
    for switch in switches:
        problems = [
            *_name_problems(str(switch["name"]), names),
            *_source_problems(switch, vendors, credentials, sample_interval),
            *_tls_problems(switch),
        ]
        yield from ("%s: %s" % (switch["name"], problem) for problem in problems)
    yield from _credential_problems(credentials)
    yield from _vendor_problems(vendors)


def switch_problems(switches: Json, vendors: Json, credentials: Json = None, sample_interval: Json = 10) -> list[str]:
    """Return what cannot work."""
    try:
        return list(_problems(switches, vendors, credentials or {}, sample_interval))
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise AnsibleFilterError(
            "switch_problems: the switches do not have the form of the role's options: %r" % exc
        ) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return filters by name."""
        return {"switch_problems": switch_problems}
