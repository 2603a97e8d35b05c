# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The attachments that exist already, from rails of an earlier plan or from the API's objects."""

from __future__ import annotations

import typing as t

from .._formats import from_json
from . import ports as rails_ports
from .ranges import DOING


class Kept(t.NamedTuple):
    """An attachment that is there already."""

    name: str
    network: str | None
    selector: tuple[str, str] | None


def existing_attachments(value: t.Any) -> list[Kept]:
    """Return attachments that are there, from rails of an earlier plan or from the API's objects."""
    attachments = []
    items = value or ()
    for item in items if isinstance(items, (list, tuple)) else [items]:
        if not isinstance(item, t.Mapping):
            raise rails_ports.RailsTypeError(
                "Could not %s: existing must be a list of rails or of NetworkAttachmentDefinitions, not %s"
                % (DOING, rails_ports.brief(item))
            )
        if "spec" in item:
            attachments.append(_from_object(item))
        else:
            selector = _mapping(item.get("selector"))
            pair = next(((str(key), str(selector[key])) for key in sorted(selector, key=str)), None)
            attachments.append(Kept(str(item.get("name")), item.get("range"), pair))
    return attachments


def _mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, t.Mapping) else {}


def _from_object(manifest: t.Mapping[str, t.Any]) -> Kept:
    meta = _mapping(manifest.get("metadata"))
    name = str(meta.get("name"))
    try:
        config = from_json(str(_mapping(manifest.get("spec")).get("config") or "{}"))
    except ValueError:
        return Kept(name, None, None)
    plugins = _mapping(config).get("plugins") or [config]
    first = _mapping(plugins[0] if isinstance(plugins, list) else None)
    ipam = _mapping(first.get("ipam"))
    network = ipam.get("range") or ipam.get("subnet")
    if isinstance(network, str) and "-" in network:
        network = network.split("-", 1)[1]  # whereabouts: FIRST-LAST/PREFIX
    # "master" is what macvlan, ipvlan and ipoib call the device of the host.
    for key, called in (("device", "device"), ("pciBusID", "pciBusID"), ("master", "device")):
        if first.get(key):
            return Kept(name, network, (called, str(first[key])))
    resource = _mapping(meta.get("annotations")).get("k8s.v1.cni.cncf.io/resourceName")
    return Kept(name, network, ("resourceName", str(resource)) if resource else None)


__all__ = ("Kept", "existing_attachments")
