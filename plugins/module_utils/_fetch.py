# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Programs from an archive or a single file, by URL or path: verified first, then put in place by a rename."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import typing as t

from ._files import FileError, because
from ._files_write import fsync_directory

# A checksum as options give it.
SHA256 = re.compile(r"sha256:[0-9a-f]{64}\Z")

# The plugins' archive has about 50 MB.
MOST_BYTES = 1 << 30
# Where plugins are unpacked, in a directory of its own beside them.
_WORK = ".rdmaops-"


class FetchError(FileError):
    """Something could not be fetched, or is not the expected file."""


def fetch(url: str, timeout: int) -> t.Any:
    """Return a stream of what is at a URL or path."""
    path = url[7:] if url.startswith("file://") else url
    if path.startswith("/"):
        try:
            return open(path, "rb")
        except OSError as exc:
            raise FetchError("Fetching %s: %s. Look at the mirror's path" % (url, exc.strerror)) from exc
    from ansible.module_utils.urls import open_url

    try:
        # Releases are redirected to where their files are; what ~/.netrc has for the first host is not for the others.
        return open_url(
            url, timeout=timeout, http_agent="rdmaops.gpu_fabric", unredirected_headers=["Authorization", "Cookie"]
        )
    except Exception as exc:  # urllib's, ssl's, socket's and Ansible's own
        raise FetchError(
            "Fetching %s: %s. If hosts cannot reach it, set a mirror (a URL or a directory)"
            % (url, " ".join(str(exc).split()) or type(exc).__name__)
        ) from exc


def _copy(stream: t.Any, sink: t.BinaryIO, url: str) -> str:
    hasher, count = hashlib.sha256(), 0
    while True:
        try:
            block = stream.read(1 << 20)
        except OSError as exc:
            raise FetchError("Fetching %s: connection lost after %d bytes: %s. Run again" % (url, count, exc)) from exc
        if not block:
            return hasher.hexdigest()
        count += len(block)
        if count > MOST_BYTES:
            raise FetchError("Fetching %s: larger than %d bytes" % (url, MOST_BYTES))
        hasher.update(block)
        sink.write(block)


def install(
    source: t.Mapping[str, t.Any],
    directory: str,
    timeout: int,
    get: t.Callable[[str, int], t.Any],
    about_to: t.Callable[[], None],
) -> dict[str, str]:
    """Fetch, verify and install, and return the digest of each file that is in place now.

    ``about_to`` is called when everything has been verified and nothing has been put in place.
    """
    url = source["url"]
    try:
        os.makedirs(directory, mode=0o755, exist_ok=True)
        # Beside the target, so that a rename is one; dot files are no plugins.
        with tempfile.TemporaryDirectory(prefix=_WORK, dir=directory) as work:
            whole = os.path.join(work, "whole")
            with contextlib.closing(get(url, timeout)) as stream, open(whole, "wb") as sink:
                actual = _copy(stream, sink, url)
            expected = source["checksum"][len("sha256:") :]
            if actual != expected:
                raise FetchError(
                    "Verifying %s: its SHA-256 is %s, expected %s. Nothing was installed: the file is damaged or is "
                    "not the expected one" % (url, actual, expected)
                )
            ready = _unpack(whole, work, source)
            about_to()
            return {name: _place(path, os.path.join(directory, name)) for name, path in sorted(ready.items())}
    except OSError as exc:
        raise FetchError("Installing %s in %s: %s" % (source["name"], directory, because(exc))) from exc


def clean(directory: str) -> None:
    """Remove the leftovers of a killed run, which may be as large as all plugins together."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        path = os.path.join(directory, name)
        if name.startswith(_WORK) and os.lstat(path).st_uid == os.geteuid():
            shutil.rmtree(path, ignore_errors=True)


def _unpack(whole: str, work: str, source: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the named files, unpacked; for a single program, the file itself."""
    names: t.Sequence[str] = source["files"]
    if not tarfile.is_tarfile(whole):
        if len(names) != 1:
            raise FetchError(
                "Installing %s: %s is not a tar archive, and a single program cannot be %s"
                % (source["name"], source["url"], ", ".join(names))
            )
        return {names[0]: whole}
    ready: dict[str, str] = {}
    with tarfile.open(whole) as archive:
        for member in archive:
            name = os.path.basename(member.name)
            # By name, and regular files only: no path of the archive is ever used.
            if name in names and member.isreg():
                stream = t.cast("t.IO[bytes]", archive.extractfile(member))
                path = os.path.join(work, "new-" + name)
                with contextlib.closing(stream), open(path, "wb") as sink:
                    shutil.copyfileobj(stream, sink)
                ready[name] = path
    missing = [name for name in names if name not in ready]
    if missing:
        raise FetchError(
            "Installing %s: %s has no %s. Correct files" % (source["name"], source["url"], ", ".join(missing))
        )
    return ready


def _place(path: str, target: str) -> str:
    """Move a program to its place; a running one keeps the old file."""
    hasher = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            hasher.update(block)
        os.fchmod(stream.fileno(), 0o755)
        os.fsync(stream.fileno())
    os.rename(path, target)
    fsync_directory(os.path.dirname(target))
    return hasher.hexdigest()


def digest(path: str) -> str | None:
    """Return the SHA-256 of a file, None if there is none."""
    hasher = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                hasher.update(block)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise FetchError("Reading %s: %s" % (path, because(exc))) from exc
    return hasher.hexdigest()


__all__ = ("SHA256", "FetchError", "clean", "digest", "fetch", "install")
