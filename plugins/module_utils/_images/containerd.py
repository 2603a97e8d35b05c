# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""containerd 1.6 to 2.x through its own client ctr: each call with a time limit, and no secret among its arguments."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import subprocess
import tempfile
import threading
import typing as t

from .. import _command
from .._errors import FabricError
from .oci import DIGEST

ADDRESS = "/run/containerd/containerd.sock"
NAMESPACE = "k8s.io"
# Where containerd's own documentation (docs/hosts.md) puts the configuration of registries.
HOSTS_DIR = "/etc/containerd/certs.d"
# Where archives, k3s and RKE2 install ctr.
_DIRECTORIES = (*_command.DIRECTORIES, "/var/lib/rancher/rke2/bin")
_VERSION = re.compile(r"(?:^|\s|v)(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_NOISE = re.compile(r'level=(debug|info|warning)\b|^time="[^"]*" level=(debug|info|warning)\b|^\s*$')
_LINES = 4
# Limit for requests without a transfer.
_QUICK = 60
# A terminal in canonical mode takes 4095 characters a line (termios(3)).
_LONGEST_PASSWORD = 4000


class ContainerdError(FabricError):
    """containerd or ctr failed; the text has its last lines of output."""


class Login(t.NamedTuple):
    username: str
    password: str


def find(binary: str | None) -> str:
    """Return the path of ctr."""
    try:
        return _command.find("ctr", binary, "ctr_binary", _DIRECTORIES)
    except _command.NotFound as exc:
        raise ContainerdError(
            "Looking for ctr: %s. It is part of containerd; set ctr_binary to its path" % exc
        ) from None


def reach(address: str) -> None:
    """Check that containerd answers on its socket, and report what is wrong if it does not."""
    doing = "Connecting to containerd at %s" % address
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_QUICK)
        try:
            client.connect(address)
        except OSError as exc:
            advice = "Check that it is running"
            if exc.errno in (errno.EACCES, errno.EPERM):
                advice = "Run as root (become: true)"
            elif exc.errno == errno.ENOENT:
                advice = "Install and start containerd, or set address to its socket"
            elif exc.errno == errno.ECONNREFUSED:
                advice = "The socket exists, but nothing is listening: start containerd"
            raise ContainerdError("%s: %s. %s" % (doing, exc.strerror or exc, advice)) from exc


def parse_version(text: str) -> tuple[int, int, int]:
    """Read `ctr --version`, which names a Go module and a version, with or without a v."""
    match = _VERSION.search(text)
    if match is None:
        raise ContainerdError(
            "Getting the version of ctr: it answered %r, which is not a containerd version. Set "
            "ctr_binary to the path of ctr" % text.strip()[:200]
        )
    return int(match.group(1)), int(match.group(2)), int(match.group(3))


def parse_images(text: str) -> dict[str, str]:
    """Read `ctr images ls`: name to digest. Names have no blanks, and the digest is the third column."""
    images = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 3 or not DIGEST.match(fields[2]):
            raise ContainerdError("Listing images: ctr printed a line that could not be parsed: %r" % line[:300])
        images[fields[0]] = fields[2]
    return images


def parse_store(text: str) -> str | None:
    """Read `ctr plugins ls -d id==content`: the directory of the content store."""
    section = ""
    for line in text.splitlines():
        fields = line.split(None, 1)
        if len(fields) == 2 and fields[0] == "Type:":
            section = fields[1].strip()
        elif len(fields) == 2 and fields[0] == "root" and section == "io.containerd.content.v1":
            return fields[1].strip()
    return None


def last_lines(text: str, secret: str = "", count: int = _LINES, size: int = 1500) -> str:
    """Return the last lines of an output, less what is logged, on one line and without the secret."""
    if secret:
        text = text.replace(secret, "********")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.search(line)]
    return " | ".join(lines[-count:])[-size:].rstrip(".") or "nothing"


def advice(text: str) -> str:
    """Return advice on some of a registry's answers."""
    if re.search(r"\b40[13]\b|authorization failed|insufficient_scope|access denied|unauthorized", text):
        return "Set username and password, or auth_file, of a user who has this right"
    if re.search(r": not found|manifest unknown", text):
        return "The registry does not have this image: check name and digest, and push it first"
    if "x509" in text or "HTTP response to HTTPS" in text:
        return "Configure how the registry is reached, or its CA, in a hosts.toml below hosts_dir"
    if re.search(r"connection refused|no such host|timeout|deadline exceeded|no route to host|: EOF|unreachable", text):
        return (
            "The registry cannot be reached from this host: check its name, hosts_dir for a mirror, and the task's "
            "environment for a proxy (HTTPS_PROXY), which ctr uses and containerd does not"
        )
    return "Check containerd's log"


@contextlib.contextmanager
def _password_terminal(password: str) -> t.Iterator[int]:
    """A terminal into which a password was typed: an argument of ctr could be read by every user of the host."""
    import pty
    import termios

    if len(password.encode("utf-8")) > _LONGEST_PASSWORD or any(ord(c) < 32 or ord(c) == 127 for c in password):
        raise ContainerdError(
            "Logging in to a registry: the password has more than %d bytes or a control character, which ctr cannot "
            "be given" % _LONGEST_PASSWORD
        )
    master, slave = pty.openpty()
    try:
        # Typed before ctr turns the echo off.
        mode = termios.tcgetattr(slave)
        mode[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        os.write(master, password.encode("utf-8") + b"\n")
        yield slave
    finally:
        os.close(slave)
        os.close(master)


class Containerd:
    """The edge."""

    def __init__(self, address: str, namespace: str, binary: str | None, timeout: int) -> None:
        self.binary = find(binary)
        self.address = address
        self.namespace = namespace
        self.timeout = timeout
        reach(address)
        version = parse_version(self._run(["--version"], "Getting the version of ctr").decode("utf-8", "replace"))
        # From 2.0 on containerd transfers images by itself: then, blobs of layers that are unpacked already are left
        # out (seen with 2.1.9), and a pull does not restore what is missing.
        self._client_side = ["--local"] if version >= (2, 0, 0) else []

    def _argv(self, arguments: t.Sequence[str]) -> list[str]:
        return [self.binary, "--address", self.address, "--namespace", self.namespace, *arguments]

    def _run(
        self,
        arguments: t.Sequence[str],
        doing: str,
        *,
        limit: int = _QUICK,
        stdin: int = subprocess.DEVNULL,
        secret: str = "",
        feed: t.Callable[[t.BinaryIO], None] | None = None,
        hint: t.Callable[[str], str] = lambda _text: "Check containerd's log",
    ) -> bytes:
        """Run ctr and return its standard output; ``feed`` writes its standard input."""
        # Into files, so that full pipes cannot block ctr while it is fed.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    self._argv(arguments),
                    stdin=subprocess.PIPE if feed else stdin,
                    stdout=out,
                    stderr=err,
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                )
            except OSError as exc:
                raise ContainerdError("%s: %s cannot be run: %s" % (doing, self.binary, exc.strerror)) from exc
            expired = threading.Event()

            def end() -> None:
                expired.set()
                process.kill()

            watch = threading.Timer(limit, end)
            watch.start()
            try:
                if feed and process.stdin:
                    # ctr has ended early: its output counts.
                    with contextlib.suppress(BrokenPipeError), process.stdin as sink:
                        feed(t.cast("t.BinaryIO", sink))
                process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                watch.cancel()
            out.seek(0)
            err.seek(0)
            text = err.read().decode("utf-8", "replace")
            if expired.is_set():
                raise ContainerdError(
                    "%s: ctr timed out after %d s and was killed. Output: %s. %sheck containerd's log"
                    % (doing, limit, last_lines(text, secret), "Raise timeout, or c" if limit == self.timeout else "C")
                )
            if process.returncode != 0:
                raise ContainerdError(
                    "%s: ctr exited with status %d. Output: %s. %s"
                    % (doing, process.returncode, last_lines(text, secret), hint(text))
                )
            return out.read()

    def images(self) -> dict[str, str]:
        """Return every image of the namespace: name to digest."""
        doing = "Listing the images of namespace %s" % self.namespace
        return parse_images(self._run(["images", "ls"], doing).decode("utf-8", "replace"))

    def blobs(self) -> dict[str, int]:
        """Return every blob of the namespace with its size on disk, which ctr rounds and remembers."""
        doing = "Listing the content of namespace %s" % self.namespace
        digests = self._run(["content", "ls", "--quiet"], doing).decode("utf-8", "replace").split()
        output = self._run(["plugins", "ls", "--detailed", "id==content"], "Getting the content store of containerd")
        root = parse_store(output.decode("utf-8", "replace"))
        if root is None:
            raise ContainerdError(
                "Getting the content store of containerd: it has no directory, so sizes cannot be compared. Other "
                "content stores (proxy plugins) are not supported"
            )
        sizes = {}
        for digest in digests:
            kind, _colon, value = digest.partition(":")
            try:
                sizes[digest] = os.stat(os.path.join(root, "blobs", kind, value)).st_size
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise ContainerdError("Looking at the content store %s: %s" % (root, exc.strerror)) from exc
        return sizes

    def read(self, digest: str) -> bytes:
        """Return a blob: a manifest, an index or a configuration."""
        return self._run(["content", "get", digest], "Reading blob %s" % digest)

    def pull(self, reference: str, hosts_dir: str | None, login: Login | None, doing: str) -> None:
        arguments = ["images", "pull", *self._client_side]
        arguments += ["--hosts-dir", hosts_dir] if hosts_dir else []
        if login is None:
            self._run([*arguments, reference], doing, limit=self.timeout, hint=advice)
            return
        with _password_terminal(login.password) as terminal:
            arguments += ["--user", login.username, reference]
            self._run(arguments, doing, limit=self.timeout, stdin=terminal, secret=login.password, hint=advice)

    def load(self, feed: t.Callable[[t.BinaryIO], None], doing: str) -> None:
        """Import an archive that ``feed`` writes."""
        self._run(["images", "import", *self._client_side, "-"], doing, limit=self.timeout, feed=feed)

    def tag(self, source: str, name: str) -> None:
        self._run(["images", "tag", "--force", source, name], "Naming %s %s" % (source, name))

    def remove(self, name: str) -> None:
        self._run(["images", "rm", name], "Removing the image %s" % name)

    def discard(self, digest: str) -> None:
        """Remove a blob from the content store at once."""
        self._run(["content", "rm", digest], "Removing blob %s" % digest)
        # Garbage collection removes the file, and until then it is not fetched again. Deleting a lease synchronously
        # starts a collection and waits for it.
        doing = "Collecting the garbage of containerd"
        lease = "rdmaops-%s-%d" % (digest[-12:], os.getpid())
        self._run(["leases", "create", "--id", lease], doing)
        self._run(["leases", "rm", "--sync", lease], doing, limit=self.timeout)


__all__ = (
    "ADDRESS",
    "HOSTS_DIR",
    "NAMESPACE",
    "Containerd",
    "ContainerdError",
    "Login",
    "advice",
    "find",
    "last_lines",
    "parse_images",
    "parse_store",
    "parse_version",
    "reach",
)
