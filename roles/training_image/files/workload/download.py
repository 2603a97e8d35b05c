# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data sets that are not there: downloaded by the first rank of each host, verified, unpacked, and put in place whole.

The checksum is an option's, never the server's: so plain HTTP and mirrors are as good as any other source.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import http.client
import os
import re
import signal
import tempfile
import time
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from common import WorkloadError, say, write_whole
from dataset import AbsentError, Images

Pair = t.Tuple[Images, t.Optional[Images]]
# Content by file name; an archive has none.
Files = t.Mapping[str, bytes]

# The largest published file is the archive of CIFAR-10, with 170 MB. It is kept in memory.
MOST_BYTES = 1 << 28
# How long a server may send nothing.
STALL = 30
# How long the others of a host wait after the time limit of the download, for unpacking.
MARGIN = 30


class Source(t.NamedTuple):
    """A file to download; the checksum is ALGORITHM:DIGEST."""

    url: str
    checksum: str

    @property
    def shown(self) -> str:
        """The URL without its query, which may be a signature."""
        return self.url.partition("?")[0]


def sources(arguments: argparse.Namespace, title: str, files: t.Sequence[str]) -> dict[str, Source]:
    """Return what the options name, by file: ``files`` under the URL, or an archive at it if there are none.

    Raises WorkloadError for what would not be verified.
    """
    url, checksums = arguments.data_url, arguments.data_checksum or []
    if not url and not checksums:
        return {}
    if not url:
        raise WorkloadError("--data-checksum: set --data-url too, or leave it out")
    if not checksums:
        raise WorkloadError(
            "--data-url: nothing is downloaded without a checksum. Set --data-checksum to sha256: or md5: and the"
            " digest that you trust"
        )
    parts = _split(url)
    if sorted(file for file, _checksum in checksums) != sorted(files or [""]):
        shape = (
            "FILE=sha256:HEX once for each of %s" % ", ".join(files) if files else "sha256:HEX once, for the archive"
        )
        raise WorkloadError("--data-checksum: with %s, set %s (or md5:)" % (title, shape))
    if not files:
        return {"": Source(url, checksums[0][1])}
    base = parts.path.rstrip("/")
    return {
        file: Source(parts._replace(path="%s/%s" % (base, file)).geturl(), checksum) for file, checksum in checksums
    }


def _split(url: str) -> urllib.parse.SplitResult:
    """Return the parts of a URL. Raises WorkloadError without the URL, which may have a secret."""
    try:
        parts = urllib.parse.urlsplit(url)
        if (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.username is None
            and not re.search(r"\s", url)
        ):
            return parts
    except ValueError:
        pass
    raise WorkloadError("--data-url: it must be a URL of http or https, without a login and without spaces")


@contextlib.contextmanager
def limited(seconds: float) -> t.Iterator[None]:
    """Raise TimeoutError in the block after that time, whatever it waits for."""

    def handle(_number: int, _frame: t.Any) -> t.NoReturn:
        raise TimeoutError("not complete in time (--rendezvous-timeout)")

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fetch(source: Source, seconds: float) -> bytes:
    """Return the file at a URL, verified."""
    content = bytearray()
    try:
        with limited(seconds), urllib.request.urlopen(source.url, timeout=STALL) as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                content += block
                if len(content) > MOST_BYTES:
                    raise WorkloadError("Downloading %s: it has more than %d bytes" % (source.shown, MOST_BYTES))
    except (OSError, ValueError, http.client.HTTPException) as exc:
        reason: object = exc
        if isinstance(exc, urllib.error.URLError) and not isinstance(exc, urllib.error.HTTPError):
            reason = exc.reason
        raise WorkloadError(
            "Downloading %s: %s (%d bytes were received). Look at --data-url, or put the files into --data-dir"
            % (source.shown, str(reason) or type(reason).__name__, len(content))
        ) from exc
    algorithm = source.checksum.partition(":")[0]
    actual = "%s:%s" % (algorithm, hashlib.new(algorithm, content).hexdigest())
    if actual != source.checksum:
        raise WorkloadError(
            "Verifying %s: %d bytes with %s, expected %s. It is truncated, or is not the expected file. Nothing was"
            " unpacked" % (source.shown, len(content), actual, source.checksum)
        )
    return bytes(content)


def place(files: Files, directory: str) -> None:
    """Write files to a new directory, which appears with all of them."""
    parent, name = os.path.split(directory)
    try:
        os.makedirs(parent, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".%s-" % name, dir=parent) as work:
            new = os.path.join(work, name)
            for file, content in files.items():
                _write(os.path.join(new, file), content)
            _rename(new, directory)
    except OSError as exc:
        raise WorkloadError("Writing %s: %s" % (directory, exc.strerror or exc)) from exc


def _write(path: str, content: bytes) -> None:
    write_whole(path, lambda stream: stream.write(content))


def _rename(new: str, directory: str) -> None:
    try:
        os.rename(new, directory)
    except OSError as exc:
        # Another host that shares the directory was faster.
        if exc.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def wait(read: t.Callable[[], Pair], seconds: float) -> Pair:
    """Return the data once it is there."""
    ends = time.monotonic() + seconds
    while True:
        try:
            return read()
        except AbsentError as exc:
            if time.monotonic() >= ends:
                raise WorkloadError(
                    "The first rank of this host has downloaded nothing within %d s (--rendezvous-timeout): its log"
                    " says why. %s" % (seconds, exc)
                ) from exc
        time.sleep(min(1.0, max(0.0, ends - time.monotonic())))


def read(
    read_from: t.Callable[[str], Pair],
    unpack: t.Callable[[Files], tuple[str, Files]],
    wanted: t.Mapping[str, Source],
    directory: str,
    *,
    first: bool,
    patience: float,
) -> Pair:
    """Return the data of a directory. If there is none, the first rank of a host downloads it, and the others wait."""
    try:
        return read_from(directory)
    except AbsentError:
        if not wanted:
            raise
    if not first:
        return wait(lambda: read_from(directory), patience + MARGIN)
    ends = time.monotonic() + patience
    contents = {}
    for file, source in wanted.items():
        say("downloading %s" % source.shown)
        contents[file] = fetch(source, ends - time.monotonic())
    name, files = unpack(contents)
    place(files, os.path.join(directory, name))
    return read_from(directory)


__all__ = ("Source", "fetch", "place", "read", "sources", "wait")
