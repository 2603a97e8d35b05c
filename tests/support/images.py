# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A containerd and a registry of the test's own, for container images built by hand (tests/lab/oci.py).

A containerd has its configuration, directories and socket below one directory, apart from the machine's.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
import typing as t
import urllib.error
import urllib.request
from pathlib import Path

from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.lab.oci import Image, Index, digest_of, oci_archive, tar_of
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, need_tool
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import wait_for

USER = "puller"
# Of docker-registry's htpasswd file, which takes bcrypt only: the hash of this password, with four rounds.
PASSWORD = "s3cret-Pa:ss w"
HTPASSWD = USER + ":$2b$04$m5vA45yKrK4tZKaoIaNDqe3WX/xUx7hS27g8.IOayHM2WzuDc50l2\n"


def docker_archive(path: Path, image: Image, name: str) -> Path:
    """Write what `docker save` wrote before it knew of OCI."""
    layers = {f"{number}/layer.tar": data for number, data in enumerate(image.layers)}
    entry = {"Config": "config.json", "RepoTags": [name], "Layers": list(layers)}
    path.write_bytes(tar_of({"config.json": image.config, **layers, "manifest.json": json.dumps([entry]).encode()}))
    return path


class Daemon:
    """A program that a test starts and ends."""

    def __init__(self, argv: t.Sequence[str], log: Path, ready: t.Callable[[], bool]) -> None:
        self.argv = list(argv)
        self.log = log
        self.ready = ready
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, limit: float = 60) -> None:
        with self.log.open("ab") as sink:
            self.process = process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        try:
            wait_for(lambda: self.ready() or process.poll() is not None, limit, pause=0.05)
            assert self.ready(), f"{self.argv[0]} is not ready: {self.log.read_text()[-2000:]}"
        except AssertionError:
            self.stop()
            raise

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(20)


class Containerd:
    """A containerd without CRI, and its ctr."""

    def __init__(self, directory: Path) -> None:
        need_root()
        self.directory = directory
        self.address = directory / "containerd.sock"
        self.store = directory / "root/io.containerd.content.v1.content/blobs/sha256"
        self._ctr = need_tool("ctr")
        # Above 108 characters a socket has no name (unix(7)).
        assert len(str(self.address)) < 100, self.address
        config = directory / "config.toml"
        config.write_text(
            "version = 2\n"
            f"root = {json.dumps(str(directory / 'root'))}\n"
            f"state = {json.dumps(str(directory / 'state'))}\n"
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f"[grpc]\n  address = {json.dumps(str(self.address))}\n"
        )
        argv = [need_tool("containerd"), "--config", str(config)]
        self.daemon = Daemon(argv, directory / "log", self.answers)

    def close(self) -> None:
        self.daemon.stop()

    def answers(self) -> bool:
        return self.address.exists() and self._run("version").returncode == 0

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [self._ctr, "--address", str(self.address), "--namespace", "k8s.io", *argv]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def ctr(self, *argv: str) -> str:
        done = self._run(*argv)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def images(self) -> dict[str, str]:
        """Return what there is: name to digest."""
        return {line.split()[0]: line.split()[2] for line in self.ctr("images", "ls").splitlines()[1:]}

    def checked(self, name: str) -> str:
        """Return the state of an image's content by `ctr images check`: complete, incomplete or unavailable."""
        # It ends with 1 where it cannot tell whether the image is unpacked.
        (line,) = self._run("images", "check", f"name=={name}").stdout.splitlines()[1:]
        return line.split()[3]

    def blob(self, digest: str) -> Path:
        return self.store / digest[len("sha256:") :]

    def clear(self) -> None:
        """Take every image away."""
        names = list(self.images())
        if names:
            self.ctr("images", "rm", "--sync", *names)


class Registry:
    """A registry on this machine without TLS, that asks for a login."""

    def __init__(self, directory: Path) -> None:
        self.reserved = ports.reserve()
        self.host = f"127.0.0.1:{ports.number(self.reserved)}"
        (directory / "htpasswd").write_text(HTPASSWD)
        config = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
            "http": {"addr": self.host},
            "auth": {"htpasswd": {"realm": "test", "path": str(directory / "htpasswd")}},
        }
        (directory / "config.yml").write_text(json.dumps(config))
        argv = [need_tool("docker-registry"), "serve", str(directory / "config.yml")]
        self.daemon = Daemon(argv, directory / "log", self.answers)

    def close(self) -> None:
        self.daemon.stop()
        self.reserved.close()

    def request(self, method: str, url: str, data: bytes = b"", kind: str = "application/octet-stream") -> t.Any:
        request = urllib.request.Request(url, data or None, {"Content-Type": kind}, method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(request, timeout=30)

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.request("GET", f"http://{self.host}/v2/").status == 200)
        return False

    def push(self, repository: str, *images: Image | Index, tag: str = "") -> None:
        """Put images into a repository, under their digest or a tag (distribution specification, "Push")."""
        base = f"http://{self.host}/v2/{repository}"
        for image in images:
            for digest, data in image.blobs.items():
                place = self.request("POST", f"{base}/blobs/uploads/").headers["Location"]
                self.request("PUT", f"{place}&digest={digest}", data)
            for digest, data in reversed(image.blobs.items()):
                kind = json.loads(data).get("mediaType") if data.startswith(b"{") else None
                if kind:
                    name = tag if tag and digest == image.digest else digest
                    self.request("PUT", f"{base}/manifests/{name}", data, kind)


Program = t.TypeVar("Program", Containerd, Registry)


@contextlib.contextmanager
def running(program: Program) -> t.Iterator[Program]:
    """Start a containerd or a registry, and end it."""
    with contextlib.closing(program):
        program.daemon.start()
        yield program


__all__ = [
    "HTPASSWD",
    "PASSWORD",
    "USER",
    "Containerd",
    "Image",
    "Index",
    "Registry",
    "digest_of",
    "docker_archive",
    "oci_archive",
    "running",
    "tar_of",
]
