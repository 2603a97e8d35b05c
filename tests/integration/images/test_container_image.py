# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module container_image with a real containerd and a real registry; `ctr images check` is the oracle."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images.manage import manage
from ansible_collections.rdmaops.gpu_fabric.tests.lab import ports
from ansible_collections.rdmaops.gpu_fabric.tests.lab.tools import architecture
from ansible_collections.rdmaops.gpu_fabric.tests.support import images, site
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.images import Containerd, Image, Index, Registry

NAME = "registry.example.com/team/tiny:1"
IMAGE = Image({"a": b"first"}, {"b": b"x" * 5000}, labels={"made": "here"})
OTHER = Image({"a": b"second"})
FOREIGN = Image({"a": b"first"}, architecture="s390x")
Json = t.Any


def options(containerd: Containerd, **more: Json) -> dict[str, Json]:
    known = dict.fromkeys(("digest", "archive", "username", "password", "auth_file", "hosts_dir", "ctr_binary"))
    given = {"name": NAME, "state": "present", "source": "registry", "namespace": "k8s.io", "timeout": 60}
    return {**known, **given, "address": str(containerd.address), **more}


def refused(desired: dict[str, Json], *, check: bool = False) -> str:
    return message_of(FabricError, manage, desired, check)


def drill(containerd: Containerd, desired: dict[str, Json], image: Image | Index) -> Json:
    """Check, do, do again, check again; the result of the first is returned."""
    name = desired["name"]
    before = containerd.images()
    checked = manage(desired, True)
    assert checked["changed"], checked
    assert checked["diff"]
    assert containerd.images() == before
    done = manage(desired, False)
    assert done == checked
    assert containerd.images()[name] == image.digest
    assert containerd.checked(name) == "complete"
    # Nothing but the name is left of the way there.
    assert set(containerd.images()) - set(before) <= {name}
    for check in (False, True):
        again = manage(desired, check)
        assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
        assert [resource["status"] for resource in again["resources"]] == ["in_sync"]
        assert again["content"] == {"required": len(IMAGE.blobs), "missing": [], "damaged": []} or image is not IMAGE
    return checked


def test_from_an_archive(containerd: Containerd, tmp_path: Path) -> None:
    archive = images.oci_archive(tmp_path / "a.tar", IMAGE)
    desired = options(containerd, source="archive", archive=str(archive))
    result = drill(containerd, desired, IMAGE)
    whole = f"registry.example.com/team/tiny@{IMAGE.digest}"
    assert result["actions"] == [
        f"Import {IMAGE.digest} from {archive}",
        f"Name {IMAGE.digest} {NAME}",
        f"Remove the name {whole}",
    ]
    resource = {"kind": "container_image", "name": NAME, "status": "drift", "desired": IMAGE.digest, "live": "absent"}
    assert result["resources"] == [{**resource, "configured": None, "next_boot": None}]
    assert (result["diff"][0]["before"], result["diff"][0]["after"]) == ("", f"{IMAGE.digest}\ncontent: complete\n")
    # With the digest known, the archive may go.
    archive.unlink()
    assert not manage({**desired, "digest": IMAGE.digest}, False)["changed"]
    assert "Reading " + str(archive) + ": No such file or directory" in refused(desired, check=True)
    for check in (True, False):
        gone = manage({**desired, "state": "absent"}, check)
        assert (gone["changed"], gone["actions"]) == (True, [f"Remove the image {NAME}"])
    assert containerd.images() == {}
    assert not manage({**desired, "state": "absent"}, False)["changed"]


def test_from_a_registry(containerd: Containerd, registry: Registry, tmp_path: Path) -> None:
    registry.push("team/tiny", IMAGE)
    name = f"{registry.host}/team/tiny:1"
    login = {"username": images.USER, "password": images.PASSWORD}
    desired = options(containerd, name=name, digest=IMAGE.digest, **login)
    result = drill(containerd, desired, IMAGE)
    assert result["actions"][0] == f"Pull {registry.host}/team/tiny@{IMAGE.digest}"
    # By digest, as a pod may name it: no transfer, and no login.
    by_digest = f"{registry.host}/team/tiny@{IMAGE.digest}"
    result = drill(containerd, options(containerd, name=by_digest), IMAGE)
    assert result["actions"] == [f"Name {IMAGE.digest} {by_digest}"]
    assert set(containerd.images()) == {name, by_digest}
    # Each of two names of one digest goes alone.
    assert manage({**desired, "state": "absent"}, False)["changed"]
    assert containerd.images() == {by_digest: IMAGE.digest}
    assert containerd.checked(by_digest) == "complete"
    containerd.clear()
    secret = tmp_path / "pull-secret.json"
    auth = base64.b64encode(f"{images.USER}:{images.PASSWORD}".encode()).decode()
    wrong = base64.b64encode(b"nobody:nothing").decode()
    places = {registry.host: {"auth": wrong}, f"http://{registry.host}/team": {"auth": auth}}
    secret.write_text(json.dumps({"auths": places}))
    drill(containerd, options(containerd, name=by_digest, auth_file=str(secret)), IMAGE)


@pytest.mark.parametrize("source", ["archive", "registry"])
def test_content_that_went_behind_the_name(
    containerd: Containerd, registry: Registry, tmp_path: Path, source: str
) -> None:
    registry.push("team/tiny", IMAGE)
    name = f"{registry.host}/team/tiny:1"
    archive = images.oci_archive(tmp_path / "a.tar", IMAGE)
    login = {"username": images.USER, "password": images.PASSWORD}
    desired = options(containerd, name=name, digest=IMAGE.digest, source=source, archive=str(archive), **login)
    manage(desired, False)
    layer, config = images.digest_of(IMAGE.layers[1]), images.digest_of(IMAGE.config)
    for gone in (layer, config, IMAGE.digest):
        containerd.ctr("content", "rm", gone)
        assert containerd.checked(name) != "complete"
        assert containerd.images()[name] == IMAGE.digest
        result = drill(containerd, desired, IMAGE)
        assert result["content"]["missing"] == [gone]
        assert result["resources"][0]["live"].startswith(f"{IMAGE.digest}, of ")
        assert result["resources"][0]["live"].endswith("known 1 missing")
    # The size is what ctr does not look at; the manifest is read.
    for damaged, size in ((layer, 100), (config, 0), (IMAGE.digest, 50)):
        os.truncate(containerd.blob(damaged), size)
        result = drill(containerd, desired, IMAGE)
        assert result["content"]["damaged"] == [damaged]
        assert result["actions"][0] == f"Remove the damaged blob {damaged}"
        assert images.digest_of(containerd.blob(damaged).read_bytes()) == damaged


def test_a_tag_that_was_moved(containerd: Containerd, tmp_path: Path) -> None:
    archive = images.oci_archive(tmp_path / "a.tar", IMAGE)
    other = images.oci_archive(tmp_path / "b.tar", OTHER)
    manage(options(containerd, source="archive", archive=str(other)), False)
    desired = options(containerd, source="archive", archive=str(archive), digest=IMAGE.digest)
    result = drill(containerd, desired, IMAGE)
    assert f"Name {IMAGE.digest} {NAME} instead of {OTHER.digest}" in result["actions"]
    assert (result["live"], result["content"]) == (OTHER.digest, None)
    assert result["diff"][0]["before"] == f"{OTHER.digest}\ncontent: not looked at\n"


def test_an_index_and_a_foreign_image(containerd: Containerd, tmp_path: Path) -> None:
    """Of an index, what this machine needs is needed, and no more."""
    index = Index(FOREIGN, IMAGE)
    whole = images.oci_archive(tmp_path / "index.tar", index)
    drill(containerd, options(containerd, source="archive", archive=str(whole)), index)
    assert not containerd.blob(FOREIGN.digest).exists()
    containerd.clear()
    part = images.oci_archive(tmp_path / "part.tar", index, without=set(FOREIGN.blobs) - set(IMAGE.blobs))
    drill(containerd, options(containerd, source="archive", archive=str(part), digest=index.digest), index)
    alone = images.oci_archive(tmp_path / "foreign.tar", Index(FOREIGN))
    output = refused(options(containerd, source="archive", archive=str(alone), name="h.example.com/foreign:1"))
    assert f"it has no manifest for linux/{architecture()}, only for linux/s390x" in output


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_an_archive_of_docker_save(containerd: Containerd, tmp_path: Path, compressed: bool) -> None:
    """Its digest is the one that ctr would have given it."""
    archive = images.docker_archive(tmp_path / "docker.tar", IMAGE, "docker.io/library/tiny:1")
    containerd.ctr("images", "import", str(archive))
    digest = containerd.images()["docker.io/library/tiny:1"]
    containerd.clear()
    if compressed:
        archive.write_bytes(gzip.compress(archive.read_bytes()))
    desired = options(containerd, source="archive", archive=str(archive))
    assert manage(desired, True)["digest"] == digest
    assert manage(desired, False)["changed"]
    assert containerd.images() == {NAME: digest}
    assert containerd.checked(NAME) == "complete"
    assert not manage(desired, False)["changed"]


def test_archives_that_are_not_whole(containerd: Containerd, tmp_path: Path) -> None:
    """Nothing of them is imported, and the name goes on meaning what it meant."""
    good = images.oci_archive(tmp_path / "good.tar", OTHER)
    manage(options(containerd, source="archive", archive=str(good)), False)
    # containerd keeps the archive's own index until its next garbage collection: a blob may go, none may come.
    before = containerd.images(), {blob.name for blob in containerd.store.iterdir()}
    archive = tmp_path / "bad.tar"
    desired = options(containerd, source="archive", archive=str(archive))
    whole = images.oci_archive(archive, IMAGE).read_bytes()
    layer = images.digest_of(IMAGE.layers[1])
    for length in (0, 700, 2000, len(whole) // 2, len(whole) - 12000):
        archive.write_bytes(whole[:length])
        for check in (True, False):
            output = refused(desired, check=check)
            assert str(archive) in output
            assert "truncated" in output, (length, output)
    archive.write_bytes(gzip.compress(whole)[:-3000])
    assert "truncated" in refused(desired)
    archive.write_bytes(whole.replace(b"xxx", b"xyx", 1))
    assert refused(desired) == (
        f"Verifying {archive}: the content of blob {layer} does not match its name. The archive is damaged; nothing "
        "was imported"
    )
    images.oci_archive(archive, IMAGE, without={layer})
    assert f"blob {layer} of the image is not in the archive" in refused(desired)
    images.oci_archive(archive, IMAGE)
    output = refused({**desired, "digest": FOREIGN.digest})
    assert f"the archive has {IMAGE.digest}. Nothing was imported: correct digest" in output
    images.oci_archive(archive, IMAGE, FOREIGN)
    assert "the archive has 2 images" in refused(desired)
    archive.write_bytes(images.tar_of({"etc/passwd": b"root"}))
    assert "neither index.json (OCI) nor manifest.json (Docker)" in refused(desired)
    assert containerd.images() == before[0]
    assert containerd.checked(NAME) == "complete"
    assert {blob.name for blob in containerd.store.iterdir()} - before[1] == set()
    # One of several is taken by its name or its digest.
    images.oci_archive(archive, FOREIGN, IMAGE, names=["foreign", NAME])
    assert manage(desired, True)["digest"] == IMAGE.digest


def test_what_a_registry_refuses(containerd: Containerd, registry: Registry, tmp_path: Path) -> None:
    registry.push("team/tiny", IMAGE)
    name = f"{registry.host}/team/tiny:1"
    desired = options(containerd, name=name, digest=IMAGE.digest)
    advice = "Set username and password, or auth_file, of a user who has this right"
    begin = f"Pull {registry.host}/team/tiny@{IMAGE.digest}: ctr exited with status 1. Output: "
    output = refused(desired)
    assert output.startswith(begin)
    assert output.endswith(advice)
    output = refused({**desired, "username": images.USER, "password": "wr0ng-secret"})
    assert output.startswith(begin)
    assert output.endswith(advice)
    assert "401" in output
    assert "wr0ng-secret" not in output
    login = {"username": images.USER, "password": images.PASSWORD}
    output = refused({**desired, **login, "digest": OTHER.digest})
    assert output.endswith("The registry does not have this image: check name and digest, and push it first")
    with ports.reserve() as nobody:
        output = refused({**desired, "name": f"127.0.0.1:{ports.number(nobody)}/team/tiny:1"})
    assert "connection refused" in output
    assert "The registry cannot be reached from this host" in output
    secret = tmp_path / "pull-secret.json"
    secret.write_text(json.dumps({"auths": {"other.example.com": {"auth": "eDp5"}}}))
    assert refused({**desired, "auth_file": str(secret)}).endswith(": it is only for other.example.com")
    assert containerd.images() == {}
    # What the registry's own configuration says is containerd's to read.
    hosts = tmp_path / "hosts" / "mirrored.example.com"
    hosts.mkdir(parents=True)
    (hosts / "hosts.toml").write_text(f'[host."http://{registry.host}"]\n  capabilities = ["pull", "resolve"]\n')
    mirrored = {"name": "mirrored.example.com/team/tiny:1", "hosts_dir": str(hosts.parent)}
    drill(containerd, {**desired, **login, **mirrored}, IMAGE)


def test_what_is_refused_before_anything_is_asked(containerd: Containerd) -> None:
    desired = options(containerd, digest=IMAGE.digest)
    containerd_free = {**desired, "address": "/nowhere"}
    for bad, expected in {
        "busybox:1": "busybox:1 is docker.io/library/busybox:1",
        "team/tiny:1": "does not begin with a registry's host: what Docker calls team/tiny:1 is docker.io/team/tiny:1",
        "registry.example.com/team/tiny": "use HOST/PATH:TAG or HOST/PATH@sha256:DIGEST",
        f"registry.example.com/tiny@{OTHER.digest}": "the digest in its name differs from the option digest",
    }.items():
        assert expected in refused({**containerd_free, "name": bad})
    assert "a name alone does not identify an image" in refused({**containerd_free, "digest": None})
    advice = "Set it to sha256: and 64 lowercase hexadecimal digits"
    assert advice in refused({**containerd_free, "digest": "sha256:12"})
    output = refused({**desired, "username": "u", "password": "a\nb"})
    assert "a control character, which ctr cannot be given" in output
    output = refused({**desired, "ctr_binary": "/dev/null"})
    assert output == (
        "Looking for ctr: /dev/null (ctr_binary) is not an executable file. It is part of containerd; set ctr_binary to "
        "its path"
    )


def test_containerd_that_does_not_answer(containerd: Containerd, tmp_path: Path) -> None:
    desired = options(containerd, digest=IMAGE.digest)
    begin = f"Connecting to containerd at {containerd.address}: "
    advice = "No such file or directory. Install and start containerd, or set address to its socket"
    assert refused({**desired, "address": str(tmp_path / "none")}).endswith(advice)
    containerd.daemon.stop()
    try:
        for check in (True, False):
            assert refused(desired, check=check).startswith(begin)
    finally:
        containerd.daemon.start()
    # As another user than root. The directory of the tests is root's, too.
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c"]
    program = (
        "from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import containerd\n"
        f"try:\n    containerd.reach({str(containerd.address)!r})\n"
        "except containerd.ContainerdError as exc:\n    print(exc)\n"
    )
    done = subprocess.run([*argv, program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == begin + "Permission denied. Run as root (become: true)", done.stderr


def test_the_password_is_in_no_output(containerd: Containerd, registry: Registry, tmp_path: Path) -> None:
    """The module as a user runs it, in a playbook, with all that Ansible can print."""
    registry.push("team/tiny", IMAGE)
    given = {
        "name": f"{registry.host}/team/tiny:1",
        "digest": IMAGE.digest,
        "username": images.USER,
        "password": "{{ lookup('file', secret) }}",
        "address": str(containerd.address),
    }
    secret = tmp_path / "secret"
    task = {"name": "Have the image", "rdmaops.gpu_fabric.container_image": given}
    known: Json = {"variables": {"secret": str(secret)}, "limit": 300, **site.AS_A_USER}
    for password, rc, expected in (("wr0ng-secret", 2, "401 Unauthorized"), (images.PASSWORD, 0, "changed=1")):
        secret.write_text(password)
        run = site.run_tasks(tmp_path, [task], "-vvvvv", "--diff", **known)
        assert run.rc == rc, run.output
        assert expected in run.output
        assert password not in run.output
    assert containerd.checked(given["name"]) == "complete"
