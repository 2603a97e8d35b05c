# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role training_image through ansible-playbook: real buildah, a builder and a node with a containerd each."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.tests.lab import config, ports, training_image
from ansible_collections.rdmaops.gpu_fabric.tests.support import images, need_root, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.images import Containerd
from ansible_collections.rdmaops.gpu_fabric.tests.support.site import AS_A_USER, HERE, ansible_playbook, book
from ansible_collections.rdmaops.gpu_fabric.tests.support.torch import WORKLOAD

NAME = "registry.example.com/ml/training:1"


def busybox_root(path: Path) -> Path:
    """Write a root file system in which a shell runs."""
    busybox = need_tool("busybox")
    with tarfile.open(path, "w") as tar:
        tar.add(busybox, "bin/busybox")
        applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=60)
        for applet in applets.stdout.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if applet != "busybox":
                tar.addfile(link)
        for directory in ("etc", "proc", "root", "run", "tmp", "usr/local"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return path


class Site:
    """Two hosts on this machine: they differ in their directories and their containerd."""

    def __init__(self, directory: Path, builder: Containerd, node: Containerd, **options: t.Any) -> None:
        self.directory = directory
        self.hosts = {
            name: {
                "training_image_directory": str(directory / name),
                "training_image_containerd_address": str(containerd.address),
            }
            for name, containerd in {"builder": builder, "node": node}.items()
        }
        self.variables = {**HERE, **options}
        storage = directory / "storage"
        (directory / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{storage}/graph"\nrunroot = "{storage}/run"\n'
        )
        # buildah's own storage of this machine is not touched.
        self.environment = {"CONTAINERS_STORAGE_CONF": str(directory / "storage.conf")}

    def run(self, *arguments: str, rc: int = 0, group: str = "gpu_nodes", **options: t.Any) -> tuple[int, str]:
        """Run the role on a group of both hosts; return how many tasks changed something, and what was printed."""
        message = "reference={{ training_image_reference }}= check={{ training_image_check | to_json | b64encode }}="
        report = {"name": "Report", "ansible.builtin.debug": {"msg": message}}
        play = {"roles": ["rdmaops.gpu_fabric.training_image"], "post_tasks": [report]}
        inventory = {group: {"hosts": self.hosts, "vars": self.variables}}
        argv = book(self.directory, play, inventory=inventory, variables=options)
        known: t.Any = {**AS_A_USER, **self.environment}
        run = ansible_playbook(*argv, *arguments, **known)
        assert run.rc == rc, run.output
        return sum(int(count) for count in re.findall(r"changed=(\d+)", run.output)), run.output

    def lose_output(self) -> None:
        """Let buildah print nothing while it builds, as when it ends before it has relayed what a failed step says."""
        programs = self.directory / "programs"
        programs.mkdir()
        script = programs / "buildah"
        real = need_tool("buildah")
        script.write_text(f'#!/bin/sh\n[ "$1" = bud ] && exec {real} "$@" >/dev/null 2>&1\nexec {real} "$@"\n')
        script.chmod(0o755)
        self.environment["PATH"] = f"{programs}:{os.environ['PATH']}"

    def reference(self, out: str) -> str:
        (reference,) = set(re.findall(r"reference=(.*?)= ", out))
        return str(reference)

    def check(self, out: str) -> t.Any:
        """Return what the role reports of an image that others built."""
        (check,) = set(re.findall(r"check=(.*?)=\"", out))
        return json.loads(base64.b64decode(check + "=="))

    def at(self, registry: images.Registry) -> dict[str, t.Any]:
        """Return the options for an image in a registry without TLS."""
        conf = self.directory / "registries.conf"
        conf.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
        self.environment["CONTAINERS_REGISTRIES_CONF"] = str(conf)
        login = {"training_image_push_username": images.USER, "training_image_push_password": images.PASSWORD}
        return {"training_image_name": f"{registry.host}/ml/training:1", **login}

    @property
    def archive(self) -> Path:
        return self.directory / "builder" / "registry.example.com_ml_training_1.tar"


@pytest.fixture
def node() -> t.Iterator[Containerd]:
    with (
        tempfile.TemporaryDirectory(prefix="rdmaops-") as place,
        images.running(images.Containerd(Path(place))) as made,
    ):
        yield made


@pytest.fixture
def site(containerd: Containerd, node: Containerd, tmp_path: Path) -> Site:
    need_root()
    need_tool("buildah")
    base = busybox_root(tmp_path / "base.tar")
    options = {"name": NAME, "base_archive": str(base), "packages": [], "workload": False}
    options.update(build_become=False, build_packages=[])
    role_options = {f"training_image_{name}": value for name, value in options.items()}
    return Site(tmp_path, containerd, node, ansible_become=False, **role_options)


def add_program(root: Path, name: str) -> None:
    """Add a program that does nothing and succeeds."""
    with tarfile.open(root, "a") as tar:
        script = b"#!/bin/sh\nexit 0\n"
        header = tarfile.TarInfo(name)
        header.size, header.mode = len(script), 0o755
        tar.addfile(header, io.BytesIO(script))


def files_of(archive: Path) -> dict[str, bytes]:
    """Return every regular file of every layer of an image archive."""
    files = {}
    with tarfile.open(archive) as whole:
        for member in whole:
            if not member.isreg() or "blobs" not in member.name:
                continue
            data = whole.extractfile(member)
            assert data
            try:
                with tarfile.open(fileobj=io.BytesIO(data.read())) as layer:
                    for entry in layer:
                        stream = layer.extractfile(entry) if entry.isreg() else None
                        files[entry.name] = stream.read() if stream else b""
            except tarfile.ReadError:
                continue
    return files


def test_the_drill(site: Site, containerd: Containerd, node: Containerd) -> None:
    changed, out = site.run("--check", "--diff")
    # The image on the builder; what it will be is not known.
    assert changed == 1, out
    assert "is known when it is built" in out
    assert containerd.images() == node.images() == {}
    assert not site.archive.exists()

    changed, out = site.run()
    assert changed > 2
    reference = site.reference(out)
    digest = reference.split("@")[1]
    for runtime in (containerd, node):
        assert runtime.images() == {NAME: digest, f"registry.example.com/ml/training@{digest}": digest}
        assert runtime.checked(NAME) == "complete"
    assert not list((site.directory / "node").iterdir())
    stamp = site.archive.stat().st_mtime_ns

    for argv in ([], ["--check"]):
        changed, out = site.run(*argv)
        assert (changed, site.reference(out)) == (0, reference), out
    assert site.archive.stat().st_mtime_ns == stamp


@pytest.mark.long
def test_what_is_lost_or_changed(site: Site, node: Containerd) -> None:
    _changed, out = site.run()
    reference = site.reference(out)
    digest = reference.split("@")[1]
    stamp = site.archive.stat().st_mtime_ns
    # A node that lost a layer gets it back; the image is not built again.
    node.ctr("content", "rm", *[line for line in node.ctr("content", "ls", "-q").split() if line != digest])
    changed, out = site.run("--check")
    assert changed == 1, out
    site.run()
    assert node.checked(NAME) == "complete"
    assert site.archive.stat().st_mtime_ns == stamp
    # An archive that is gone is written from what buildah has.
    site.archive.unlink()
    _changed, out = site.run("--check", "-v")
    assert f"Write {NAME} to {site.archive}" in out
    assert f"Build {NAME}" not in out
    # Anything that it is made of makes another image.
    _changed, out = site.run(training_image_steps=["RUN echo more >/etc/more"])
    assert site.reference(out) != reference
    assert node.images()[NAME] == site.reference(out).split("@")[1]


def test_no_key_is_in_the_image(site: Site) -> None:
    site.lose_output()
    site.run("--limit", "builder")
    result = files_of(site.archive)
    assert "usr/local/sbin/training-entrypoint" in result
    assert not [name for name in result if re.search(r"ssh_host_|/id_|authorized_keys", name)]
    assert not [name for name, data in result.items() if b"PRIVATE KEY" in data and "busybox" not in name]
    # One that a step bakes in stops the build, and what is there stays.
    kept = site.archive.read_bytes()
    bake = ["RUN mkdir -p /etc/ssh && echo secret >/etc/ssh/ssh_host_rsa_key"]
    _changed, out = site.run("--limit", "builder", rc=2, training_image_steps=bake)
    assert "a key that everybody with the image would have: /etc/ssh/ssh_host_rsa_key" in out
    assert site.archive.read_bytes() == kept


def test_what_the_image_lacks_is_listed(site: Site) -> None:
    """The base has the package manager's name and nothing behind it, so that the check alone has to find it out."""
    steps = {"training_image_distribution": "redhat", "training_image_packages": ["perftest", "rdma-core"]}
    add_program(site.directory / "base.tar", "bin/dnf")
    site.lose_output()
    _changed, out = site.run("--limit", "builder", rc=2, **steps)
    assert "training-image-check: missing packages: perftest rdma-core" in out
    assert not site.archive.exists()


def test_the_workload_is_in_the_image(site: Site) -> None:
    """Whether a real Python runs it is the matter of the image that the lab makes."""
    site.lose_output()
    _changed, out = site.run("--limit", "builder", rc=2, training_image_workload=True)
    assert "/opt/rdmaops/workload needs a python3 with torch and torchvision" in out
    assert "set training_image_workload to false" in out
    add_program(site.directory / "base.tar", "bin/python3")
    site.run("--limit", "builder", training_image_workload=True)
    place = "opt/rdmaops/workload/"
    found = {name.removeprefix(place): data for name, data in files_of(site.archive).items() if name.startswith(place)}
    assert found == {path.name: path.read_bytes() for path in WORKLOAD.glob("*.py")}
    assert "train.py" in found


@pytest.mark.long
def test_nccl_tests(site: Site, tmp_path: Path) -> None:
    site.lose_output()
    _changed, out = site.run("--check", rc=2, training_image_nccl_tests=True)
    assert "Set training_image_nccl_tests_checksum to sha256: and what `curl -fsSL " in " ".join(out.split())
    source = tmp_path / "nccl-tests.tar.gz"
    source.write_bytes(images.tar_of({"nccl-tests-2/Makefile": b"all:\n"}))
    options = {
        "training_image_nccl_tests": True,
        "training_image_nccl_tests_url": f"file://{source}",
        "training_image_nccl_tests_checksum": images.digest_of(source.read_bytes()),
    }
    wrong = {**options, "training_image_nccl_tests_checksum": images.digest_of(b"")}
    _changed, out = site.run("--limit", "builder", rc=2, **wrong)
    assert f"Verifying file://{source}: its checksum is {options['training_image_nccl_tests_checksum']}" in out
    # In check mode, nothing is fetched.
    assert "Build " + NAME in site.run("--check", "-v", "--limit", "builder", **options)[1]
    _changed, out = site.run("--limit", "builder", rc=2, **options)
    assert "there is no /usr/local/cuda/bin/nvcc in the base image: set training_image_nccl_tests to false" in out


def debian(directory: Path) -> Path:
    """Write the root file system of a Debian with apt, as a site without a registry has it."""
    need_tool("mmdebstrap")
    made = directory / "debian.tar"
    argv = training_image.root_archive(directory, config.versions(), made)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        skip_or_fail(f"mmdebstrap cannot make a root file system: {done.stderr[-400:]}")
    return made


# Makes the keys of a deployment, starts sshd by the entry point and logs in to itself. sshd is ended by its PID file.
LOGIN = """
set -eu
test ! -e /etc/ssh/ssh_host_ed25519_key
exec /usr/local/sbin/training-entrypoint sh -c '
  ssh -o BatchMode=yes -o ConnectTimeout=20 127.0.0.1 "echo logged in; which ib_write_bw rping ibstat"; status=$?
  kill "$(cat /run/training-ssh/sshd.pid)"; exit $status'
"""
# Does the same as the MPI Operator's pods: no entry point, sshd without options, and one key for all.
LOGIN_OF_AN_OPERATOR = """
/usr/sbin/sshd -De 2>/dev/null & server=$!
ssh -o BatchMode=yes -o ConnectTimeout=20 127.0.0.1 "echo logged in"; status=$?
kill $server; exit $status
"""


@pytest.fixture
def sshd_port() -> t.Iterator[int]:
    with ports.reserve() as reserved:
        yield ports.number(reserved)


@pytest.mark.long
def test_the_packages_and_sshd_of_a_real_debian(site: Site, tmp_path: Path, sshd_port: int) -> None:
    """The libraries have other names since Debian 13, and are found by what they provide."""
    base = debian(tmp_path)
    del site.variables["training_image_packages"]
    options = {"training_image_base_archive": str(base), "training_image_sshd_port": sshd_port}
    assert site.run("--limit", "builder", **options)[0] > 0
    assert site.run("--limit", "builder", **options)[0] == 0
    result = files_of(site.archive)
    assert "usr/sbin/sshd" in result
    keys = [name for name, data in result.items() if b"PRIVATE KEY-----\n" in data]
    assert not [name for name in keys if name.startswith(("etc", "root"))]

    def buildah(*argv: str) -> str:
        known: t.Any = {"env": {**os.environ, **site.environment}, "stdin": subprocess.DEVNULL}
        done = subprocess.run(["buildah", *argv], capture_output=True, text=True, timeout=300, **known)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    secret = tmp_path / "secret"
    secret.mkdir()
    container = buildah("from", "--pull-never", NAME)
    try:
        run = ["run", "--isolation", "chroot", "--volume", f"{secret}:/etc/training-ssh", container, "--"]
        # Without a secret there is no sshd, and the command runs.
        assert buildah(*run, "/usr/local/sbin/training-entrypoint", "echo", "here") == "here"
        for key in ("ssh_host_ed25519_key", "id_ed25519"):
            buildah(*run, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/etc/training-ssh/{key}")
        (secret / "id_ed25519.pub").rename(secret / "authorized_keys")
        # As a mounted secret has them.
        for key_file in secret.iterdir():
            key_file.chmod(0o644)
        output = buildah(*run, "sh", "-c", LOGIN)
        assert output.splitlines() == ["logged in", "/usr/bin/ib_write_bw", "/usr/bin/rping", "/usr/sbin/ibstat"]
        # newSSHAuthSecret and setupSSHOnPod in mpi_job_controller.go: PEM, P-521, mode 0600 in a directory of mode 1777.
        job = tmp_path / "job"
        job.mkdir()
        run[4] = f"{job}:/root/.ssh"
        buildah(*run, "ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", "/root/.ssh/id_rsa")
        (job / "id_rsa.pub").rename(job / "authorized_keys")
        job.chmod(0o1777)
        assert buildah(*run, "sh", "-c", LOGIN_OF_AN_OPERATOR) == "logged in"
    finally:
        buildah("rm", container)


@pytest.mark.long
def test_by_way_of_a_registry(site: Site, registry: images.Registry, node: Containerd) -> None:
    options = {**site.at(registry), "training_image_delivery": "registry"}
    name = options["training_image_name"]
    wrong = {**options, "training_image_push_password": "wr0ng-secret"}
    _changed, out = site.run("-vvvv", rc=2, **wrong)
    assert f"Pushing {name}: buildah exited with status " in out
    assert "Set username and password, or auth_file" in out
    assert "wr0ng-secret" not in out
    _changed, out = site.run(**options)
    reference = site.reference(out)
    assert node.images() == {name: reference.split("@")[1], reference: reference.split("@")[1]}
    assert node.checked(name) == "complete"
    for argv in ([], ["--check"]):
        changed, out = site.run(*argv, **options)
        assert (changed, site.reference(out)) == (0, reference), out
    assert not site.archive.exists()
    nowhere = {"training_image_containerd_address": "/nowhere"}
    changed, out = site.run(group="image_build", **options, **nowhere)
    assert (changed, site.reference(out)) == (0, reference), out


# The packages of an Ubuntu 22.04 as its dpkg has them, and one under the name that it has since Debian 13.
STATUS = """\
Package: perftest
Status: install ok installed
Version: 4.4+0.37-1
Architecture: amd64

Package: librdmacm1t64
Status: install ok installed
Version: 39.0-1
Architecture: amd64
Provides: librdmacm1 (= 39.0-1)

Package: ibverbs-providers
Status: deinstall ok config-files
Version: 39.0-1
Architecture: amd64
"""


def debian_layer(release: str) -> bytes:
    """Return a layer with dpkg-query, the libraries that it needs, and a list of packages."""
    program = need_tool("dpkg-query")
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=60).stdout
    paths = [program, *re.findall(r"(/\S+) \(0x", needed)]
    files = {path.lstrip("/"): Path(path).read_bytes() for path in paths}
    files.update({"var/lib/dpkg/status": STATUS.encode(), "etc/os-release": release.encode()})
    return images.tar_of(files, 0o755)


def test_an_image_that_others_built(site: Site, registry: images.Registry, node: Containerd) -> None:
    base = (site.directory / "base.tar").read_bytes()
    image = images.Image(base, debian_layer('ID=ubuntu\nVERSION_ID="22.04"\n'))
    registry.push("ml/training", image, tag="1")
    options = {
        **site.at(registry),
        "training_image_build": False,
        "training_image_packages": ["perftest", "librdmacm1"],
    }
    _changed, out = site.run("--check", **options)
    assert site.check(out) == {"release": None, "packages": None, "missing": None}
    assert "Check mode does not pull" in out

    changed, out = site.run("--diff", "-v", **options)
    assert changed == 0, out
    assert site.check(out) == {
        "release": "ubuntu 22.04",
        "packages": {"perftest": "4.4+0.37-1", "librdmacm1": "39.0-1"},
        "missing": [],
    }
    assert site.reference(out) == f"{registry.host}/ml/training@{image.digest}"
    assert node.images() == {}
    assert base64.b64encode(f"{images.USER}:{images.PASSWORD}".encode()).decode() not in out

    missing = {**options, "training_image_packages": ["perftest", "ibverbs-providers", "libibumad3"]}
    output = " ".join(site.run(rc=2, **missing)[1].split())
    assert "/ml/training:1 (ubuntu 22.04): missing packages: ibverbs-providers libibumad3. Install them in" in output
    assert "with `apt-get install ibverbs-providers libibumad3`, or set training_image_packages to what" in output
    left = subprocess.run(
        ["buildah", "containers", "--quiet"], capture_output=True, text=True, env={**os.environ, **site.environment}
    )
    assert (left.returncode, left.stdout) == (0, "")


def message(output: str) -> str:
    """Return a message as one line; before ansible-core 2.19, it is printed as JSON."""
    return " ".join(output.replace('\\"', '"').split())


def test_an_image_of_others_that_cannot_be_checked(site: Site, registry: images.Registry) -> None:
    registry.push("ml/training", images.Image({"etc/os-release": b"ID=scratch"}), tag="1")
    options = {**site.at(registry), "training_image_build": False}
    output = message(site.run(rc=2, **{**options, "training_image_push_password": "wr0ng-secret"})[1])
    assert 'ml/training:1 on builder: the task "Pull the image" ended with status 125. Output: ' in output
    assert "For a login, set training_image_pull_username and training_image_pull_password" in output
    assert "wr0ng-secret" not in output
    # There is no shell in it.
    output = message(site.run(rc=2, **options)[1])
    assert 'ml/training:1 on builder: the task "Run the check in it" ended with status ' in output
