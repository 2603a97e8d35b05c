# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""An image in containerd by name, digest and content: live state, desired state, and plan."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import typing as t

from .._decision import DRIFT, IN_SYNC, Decision, resource
from .archive import Archive, opened
from .containerd import HOSTS_DIR, Containerd
from .login import login
from .oci import DIGEST, ImageError, Name, architecture, parse_name, required

Params = t.Mapping[str, t.Any]
ABSENT = "absent"


class Content(t.NamedTuple):
    """The content of an image that this machine needs, and what of it is missing or damaged."""

    required: tuple[str, ...]
    missing: tuple[str, ...]
    damaged: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return bool(self.required) and not self.missing and not self.damaged

    def __str__(self) -> str:
        if self.complete:
            return "complete"
        faults = ["%d missing" % len(self.missing)] if self.missing else []
        faults += ["%d damaged" % len(self.damaged)] if self.damaged else []
        return "of %d blobs known %s" % (len(self.required), ", ".join(faults))


def content(digest: str, sizes: t.Mapping[str, int], read: t.Callable[[str], bytes], machine: str) -> Content:
    """Compare what an image needs with the blobs of the content store and their sizes."""
    damaged: list[str] = []

    def stored(blob: str) -> bytes:
        if blob not in sizes:
            raise KeyError(blob)
        data = read(blob)
        if "sha256:" + hashlib.sha256(data).hexdigest() != blob:
            damaged.append(blob)
            raise KeyError(blob)
        return data

    needed = required(digest, None, stored, machine)
    missing = [blob for blob in needed if blob not in sizes]
    for blob, size in needed.items():
        if blob in sizes and blob not in damaged and size is not None and sizes[blob] != size:
            damaged.append(blob)
    return Content(tuple(needed), tuple(missing), tuple(damaged))


def check(params: Params) -> Name:
    """Refuse invalid options first."""
    name = parse_name(params["name"])
    digest = params["digest"]
    if digest and not DIGEST.match(digest):
        raise ImageError(
            "Image %s: digest is %r. Set it to sha256: and 64 lowercase hexadecimal digits" % (params["name"], digest)
        )
    if digest and name.digest and digest != name.digest:
        raise ImageError(
            "Image %s: the digest in its name differs from the option digest, %s" % (params["name"], digest)
        )
    if params["state"] == "present" and params["source"] == "registry" and not (digest or name.digest):
        raise ImageError(
            "Image %s: a name alone does not identify an image, since a tag can move. Set digest, as `skopeo inspect` "
            "or `buildah push --digestfile` reports it" % params["name"]
        )
    if params["archive"] and not os.path.isabs(params["archive"]):
        raise ImageError("Image %s: archive must be an absolute path" % params["name"])
    return name


class Image:
    """One image and its containerd."""

    def __init__(self, params: Params, name: Name, ctr: Containerd, opening: t.Callable[[], Archive]) -> None:
        self.params = params
        self.name: str = params["name"]
        self.parts = name
        self.ctr = ctr
        self.opening = opening
        self.machine = architecture()
        self.images = ctr.images()
        self.live = self.images.get(self.name)
        self.digest: str = params["digest"] or name.digest or opening().choose(None, self.name)
        self.content = Content((), (), ())

    @property
    def whole(self) -> str:
        """The name by digest, under which content is fetched before the image gets its own name."""
        return "%s@%s" % (self.parts.repository, self.digest)

    def look(self) -> Content:
        return content(self.digest, self.ctr.blobs(), self.ctr.read, self.machine)

    def plan(self, decision: Decision) -> None:
        if self.digest in self.images.values():
            self.content = self.look()
        if self.live == self.digest and self.content.complete:
            return
        source = self.whole
        if self.content.complete:
            # kubelet's side of containerd names every image by the digest of its configuration, too.
            names = [name for name, digest in self.images.items() if digest == self.digest]
            source = min(names, key=lambda name: (name.startswith("sha256:"), name != self.name, name))
        else:
            self._fetch(decision)
        if source != self.name:
            doing = "Name %s %s" % (self.digest, self.name)
            doing += " instead of %s" % self.live if self.live and self.live != self.digest else ""
            decision.add(doing, functools.partial(self.ctr.tag, source, self.name))
        if source == self.whole != self.name and self.whole not in self.images:
            decision.add("Remove the name %s" % self.whole, functools.partial(self.ctr.remove, self.whole))
        decision.show(self.name, self._text(self.live, self.content), self._text(self.digest, None))

    def _fetch(self, decision: Decision) -> None:
        for blob in self.content.damaged:
            decision.add("Remove the damaged blob %s" % blob, functools.partial(self.ctr.discard, blob))
        transfer: t.Callable[[], None]
        if self.params["source"] == "archive":
            archive = self.opening()
            blobs = archive.verified(archive.choose(self.digest, self.name), self.machine)
            feed = functools.partial(archive.write, self.digest, blobs, self.whole)
            doing = "Import %s from %s" % (self.digest, archive.path)
            transfer = functools.partial(self.ctr.load, feed, doing)
        else:
            hosts_dir = self.params["hosts_dir"] or (HOSTS_DIR if os.path.isdir(HOSTS_DIR) else None)
            doing = "Pull %s" % self.whole
            transfer = functools.partial(self.ctr.pull, self.whole, hosts_dir, login(self.params, self.parts), doing)
        decision.add(doing, functools.partial(self._arrive, transfer))

    def _text(self, digest: str | None, observed: Content | None) -> str:
        if digest is None:
            return ""
        state = "complete" if observed is None else str(observed) if digest == self.digest else "not looked at"
        return "%s\ncontent: %s\n" % (digest, state)

    def _arrive(self, transfer: t.Callable[[], None]) -> None:
        """Fetch the content under its name by digest, and remove that name if it is incomplete."""
        try:
            transfer()
            observed = self.look()
            if not observed.complete:
                raise ImageError(
                    "Fetching %s: ctr reported success, but %s are missing or damaged. They may be in another "
                    "namespace of containerd; remove them there (ctr content rm) and run again"
                    % (self.whole, ", ".join(observed.missing + observed.damaged) or self.digest)
                )
        except BaseException:
            if self.whole not in self.images:
                with contextlib.suppress(Exception):  # the error that counts is the one above
                    if self.whole in self.ctr.images():
                        self.ctr.remove(self.whole)
            raise

    def resource(self) -> dict[str, t.Any]:
        live = self.live or ABSENT
        good = self.live == self.digest and self.content.complete
        if self.live == self.digest and not good:
            live = "%s, %s" % (live, self.content)
        return resource("container_image", self.name, desired=self.digest, live=live, status=IN_SYNC if good else DRIFT)


def _present(params: Params, name: Name, check_mode: bool, ctr: Containerd) -> dict[str, t.Any]:
    decision = Decision()
    with contextlib.ExitStack() as stack:
        # Opened only if needed: with digest set and the image present, the archive may be missing.
        opening = functools.lru_cache(None)(lambda: stack.enter_context(opened(params["archive"])))
        image = Image(params, name, ctr, opening)
        image.plan(decision)
        if not check_mode:
            decision.carry_out()
    observed = image.content
    summary = {"required": len(observed.required), "missing": list(observed.missing), "damaged": list(observed.damaged)}
    return {
        **decision.result(),
        "digest": image.digest,
        "live": image.live,
        "content": summary if image.live == image.digest else None,
        "resources": [image.resource()],
    }


def _absent(name: str, check_mode: bool, ctr: Containerd) -> dict[str, t.Any]:
    decision = Decision()
    live = ctr.images().get(name)
    if live:
        decision.add("Remove the image %s" % name, functools.partial(ctr.remove, name))
        decision.show(name, live + "\n", "")
    if not check_mode:
        decision.carry_out()
    status = DRIFT if live else IN_SYNC
    return {
        **decision.result(),
        "digest": None,
        "live": live,
        "content": None,
        "resources": [resource("container_image", name, desired=ABSENT, live=live or ABSENT, status=status)],
    }


def manage(params: Params, check_mode: bool) -> dict[str, t.Any]:
    """Return what the module container_image returns."""
    name = check(params)
    ctr = Containerd(params["address"], params["namespace"], params["ctr_binary"], params["timeout"])
    if params["state"] == ABSENT:
        return _absent(params["name"], check_mode, ctr)
    return _present(params, name, check_mode, ctr)


__all__ = ("Content", "Image", "check", "content", "manage")
