# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import bz2
import io
import json
import tarfile
import typing as t
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import oci
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images.archive import opened
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images.login import from_file, login
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images.manage import content
from ansible_collections.rdmaops.gpu_fabric.tests.support import images
from ansible_collections.rdmaops.gpu_fabric.tests.support.images import Image, Index

IMAGE = Image({"a": b"first"}, {"b": b"x" * 2000}, architecture="amd64", labels={"made": "here"})
ARM = Image({"a": b"first"}, architecture="arm64", labels={"made": "there"})
INDEX = Index(ARM, IMAGE)

# name, what the message has, or the parts
NAMES: list[tuple[str, str | tuple[str, str, str]]] = [
    ("registry.example.com/a:1", ("registry.example.com", "registry.example.com/a", "1")),
    ("localhost/a/b_c:v1.2-x", ("localhost", "localhost/a/b_c", "v1.2-x")),
    ("127.0.0.1:5000/a@sha256:" + "a" * 64, ("127.0.0.1:5000", "127.0.0.1:5000/a", "")),
    ("[::1]:5000/a:1", ("[::1]:5000", "[::1]:5000/a", "1")),
    ("busybox", "is not the full name of an image"),
    ("registry.example.com/a", "is not the full name of an image"),
    ("registry.example.com/A:1", "is not the full name of an image"),
    ("registry.example.com/a:1 --all", "is not the full name of an image"),
    ("registry.example.com/a@sha256:12", "is not the full name of an image"),
    ("nvidia/cuda:1", "what Docker calls nvidia/cuda:1 is docker.io/nvidia/cuda:1"),
]


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=[row[0][:40] for row in NAMES])
def test_names(name: str, expected: str | tuple[str, str, str]) -> None:
    if isinstance(expected, str):
        with pytest.raises(oci.ImageError, match=expected):
            oci.parse_name(name)
    else:
        assert oci.parse_name(name)[:3] == expected


def sizes(image: Image | Index) -> dict[str, int]:
    return {digest: len(data) for digest, data in image.blobs.items()}


def test_content_is_what_this_machine_needs() -> None:
    whole = content(INDEX.digest, sizes(INDEX), INDEX.blobs.__getitem__, "amd64")
    assert whole.complete
    assert list(whole.required) == [INDEX.digest, *IMAGE.blobs]
    assert str(whole) == "complete"
    with pytest.raises(oci.ImageError, match="no manifest for linux/s390x, only for linux/amd64, linux/arm64"):
        content(INDEX.digest, sizes(INDEX), INDEX.blobs.__getitem__, "s390x")


@pytest.mark.parametrize("gone", [INDEX.digest, *IMAGE.blobs])
def test_a_blob_that_is_missing_or_damaged(gone: str) -> None:
    known = sizes(INDEX)
    result = content(INDEX.digest, {k: v for k, v in known.items() if k != gone}, INDEX.blobs.__getitem__, "amd64")
    assert (result.missing, result.damaged, result.complete) == ((gone,), (), False)
    assert str(result) == f"of {len(result.required)} blobs known 1 missing"
    cut = {**INDEX.blobs, gone: INDEX.blobs[gone][:-1]}
    result = content(INDEX.digest, {**known, gone: known[gone] - 1}, cut.__getitem__, "amd64")
    assert (result.missing, result.damaged, result.complete) == ((), (gone,), False)


# a manifest, what the message has
MANIFESTS = [
    (b"{", "it is not JSON"),
    (b"[]", "it is not a JSON object"),
    (b"{}", "config are not descriptors"),
    (b'{"manifests": [1]}', "manifests are not descriptors"),
    (b'{"manifests": []}', "only for nothing"),
    (b'{"config": [], "layers": [{"digest": "sha256:1", "size": 1}]}', "layers are not descriptors"),
]


@pytest.mark.parametrize(("data", "text"), MANIFESTS, ids=[row[1] for row in MANIFESTS])
def test_manifests_that_are_none(data: bytes, text: str) -> None:
    digest = images.digest_of(data)
    with pytest.raises(oci.ImageError, match=text):
        oci.required(digest, None, {digest: data}.__getitem__, "amd64")


def test_an_entry_without_a_platform_has_that_of_its_configuration() -> None:
    entries = [ARM.entry, IMAGE.entry]
    data = json.dumps({"manifests": entries}).encode()
    blobs = {**INDEX.blobs, images.digest_of(data): data}
    digests = oci.required(images.digest_of(data), None, blobs.__getitem__, "amd64")
    assert list(digests)[1] == IMAGE.digest


def test_what_is_written_is_one_image_under_one_name(tmp_path: Path) -> None:
    path = images.oci_archive(tmp_path / "a.tar", ARM, INDEX, names=["arm", "both"])
    path.write_bytes(bz2.compress(path.read_bytes()))
    sink = io.BytesIO()
    with opened(str(path)) as archive:
        assert archive.choose(None, "both") == INDEX.digest
        assert archive.label(INDEX.digest, "amd64", "made") == "here"
        assert archive.label(ARM.digest, "arm64", "made") == "there"
        assert archive.label(ARM.digest, "arm64", "other") is None
        blobs = archive.verified(INDEX.digest, "amd64")
        archive.write(INDEX.digest, blobs, "h.example.com/x:1", sink)
    sink.seek(0)
    with tarfile.open(fileobj=sink) as made:
        names = made.getnames()
        index = json.load(t.cast("t.IO[bytes]", made.extractfile("index.json")))
    assert names == ["oci-layout", "index.json", *("blobs/sha256/" + digest[7:] for digest in blobs)]
    (entry,) = index["manifests"]
    assert entry == {**INDEX.entry, "annotations": {"io.containerd.image.name": "h.example.com/x:1"}}


@hypothesis.given(cut=strategies.integers(0, 40_000), flip=strategies.none() | strategies.integers(0, 40_000))
def test_a_damaged_archive_is_refused_or_whole(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int | None
) -> None:
    """Whatever is cut off or changed: either it is refused, or all that the image needs is as it was."""
    path = images.oci_archive(tmp_path_factory.mktemp("a") / "a.tar", IMAGE)
    data = bytearray(path.read_bytes()[: cut + 1])
    if flip is not None and flip < len(data):
        data[flip] ^= 0xFF
    path.write_bytes(data)
    contents: dict[str, bytes] = {}
    said = ""
    try:
        with opened(str(path)) as archive:
            digest = archive.choose(IMAGE.digest, "x")
            contents = {blob: archive.read(blob) for blob in archive.verified(digest, "amd64")}
    except oci.ImageError as exc:
        said = str(exc)
    assert contents == IMAGE.blobs or str(path) in said or "blob sha256:" in said, said


def with_shared_layer(path: Path, target: str) -> None:
    """Turn the second layer of a Docker archive into a link to a file beside it."""
    again = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=again, mode="w") as new:
        for member in old:
            data = t.cast("t.IO[bytes]", old.extractfile(member)).read()
            if member.name == "1/layer.tar":
                link = tarfile.TarInfo(member.name)
                link.type, link.linkname = tarfile.SYMTYPE, target
                new.addfile(link)
                member.name = "shared/layer.tar"
            new.addfile(member, io.BytesIO(data))
    path.write_bytes(again.getvalue())


def test_layers_that_docker_save_writes_once(tmp_path: Path) -> None:
    path = images.docker_archive(tmp_path / "docker.tar", IMAGE, "docker.io/library/a:1")
    with opened(str(path)) as archive:
        expected = archive.choose(None, "x")
    with_shared_layer(path, "../shared/layer.tar")
    with opened(str(path)) as archive:
        assert archive.choose(None, "x") == expected
        assert len(archive.verified(expected, "amd64")) == len(IMAGE.blobs)
    images.docker_archive(path, IMAGE, "docker.io/library/a:1")
    with_shared_layer(path, "../absent/layer.tar")
    with pytest.raises(oci.ImageError, match="something that it names is missing"), opened(str(path)):
        pass


def auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


# auths, image, user or message
LOGINS: list[tuple[dict[str, t.Any], str, str]] = [
    ({"h.example.com": auth("a:p:q")}, "h.example.com/x:1", "a p:q"),
    ({"h.example.com": auth("a:p"), "https://h.example.com/team/": auth("b:q")}, "h.example.com/team/x:1", "b q"),
    ({"h.example.com": auth("a:p"), "h.example.com/tea": auth("b:q")}, "h.example.com/team/x:1", "a p"),
    ({"https://index.docker.io/v1/": auth("a:p")}, "docker.io/library/x:1", "a p"),
    ({"h.example.com": {"username": "a", "password": "p"}}, "h.example.com/x:1", "a p"),
    ({"h.example.com": auth("a:p")}, "other.example.com/x:1", "it is only for h.example.com"),
    ({"h.example.com": {}}, "h.example.com/x:1", "the entry has no user name and password"),
    ({"h.example.com": {"auth": "%%%"}}, "h.example.com/x:1", "is not the Base64 of USERNAME:PASSWORD"),
]


@pytest.mark.parametrize(("auths", "name", "expected"), LOGINS, ids=[row[2] + " " + row[1] for row in LOGINS])
def test_logins(tmp_path: Path, auths: dict[str, t.Any], name: str, expected: str) -> None:
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"auths": auths}))
    try:
        result = " ".join(from_file(str(path), oci.parse_name(name)))
    except oci.ImageError as exc:
        result = str(exc)
    assert expected in result


def test_files_that_have_no_logins(tmp_path: Path) -> None:
    name = oci.parse_name("h.example.com/x:1")
    path = tmp_path / "auth.json"
    with pytest.raises(oci.ImageError, match="no such file. Correct auth_file"):
        from_file(str(path), name)
    path.write_text('{"auths": "s3cret"')
    with pytest.raises(oci.ImageError, match="it is not a JSON object with auths") as caught:
        from_file(str(path), name)
    assert "s3cret" not in str(caught.value)
    none = {"auth_file": None, "username": None, "password": None}
    assert login(none, name) is None
    with pytest.raises(oci.ImageError, match="a user name cannot contain a colon"):
        login({**none, "username": "a:b", "password": "c"}, name)


def test_an_image_without_a_configuration() -> None:
    with pytest.raises(oci.ImageError, match=r"^Reading blob x: it has 0 configurations, and an image has one$"):
        oci.configuration("x", {"x": b'{"config": []}'}.__getitem__, "amd64")
