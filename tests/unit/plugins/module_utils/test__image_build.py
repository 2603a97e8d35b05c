# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils import _image_build
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._container_image_oci import ImageError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError


def file(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "content": None, "src": None, "checksum": None, "mode": "0644", **more}


def params(*files: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {"name": "h.example.com/x:1", "containerfile": "FROM scratch\n", "files": list(files), **more}


# options, what the message has
REFUSED = [
    ({"name": "h.example.com/x"}, "is no full name of an image"),
    ({"name": "h.example.com/x@sha256:" + "a" * 64}, "give a tag; the digest is known when it is built"),
    ({"containerfile": "RUN true\n"}, "the containerfile has no FROM"),
    ({"files": [file("a/b", content="")]}, "'a/b' is no name for a file of the context"),
    ({"files": [file("Containerfile", content="")]}, "'Containerfile' is no name for a file of the context"),
    ({"files": [file("a", src="https://h.example.com/a")]}, "nothing would verify https://h.example.com/a"),
    ({"files": [file("a", src="/a", checksum="md5:1")]}, "the checksum of a is 'md5:1'; give sha256:"),
]


@pytest.mark.parametrize(("more", "told"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_is_refused(more: dict[str, t.Any], told: str) -> None:
    with pytest.raises(ImageError) as caught:
        _image_build.check(params(**more))
    assert told in str(caught.value)


def test_inputs(tmp_path: Path) -> None:
    """The order of files makes no other image, and anything else does."""
    source = tmp_path / "source"
    source.write_text("data")
    one, two = file("one", content="1"), file("two", src=str(source))
    known = _image_build.inputs(params(one, two))
    assert _image_build.inputs(params(two, one)) == known
    made = {
        _image_build.inputs(params(one)),
        _image_build.inputs(params(one, two, containerfile="FROM scratch\n\n")),
        _image_build.inputs(params(file("one", content="2"), two)),
        _image_build.inputs(params(file("one", content="1", mode="0755"), two)),
        _image_build.inputs(params(file("uno", content="1"), two)),
    }
    source.write_text("other")
    made.add(_image_build.inputs(params(one, two)))
    assert len(made | {known}) == 7
    source.unlink()
    with pytest.raises(FabricError, match="Reading .*source for the context: there is no such file"):
        _image_build.inputs(params(one, two))
    # What has been verified need not be there.
    assert _image_build.inputs(params(file("two", src=str(source), checksum="sha256:" + "0" * 64)))


def test_no_buildah(tmp_path: Path) -> None:
    """It is needed to build, and not to say what would be built."""
    more = {"output": "archive", "directory": str(tmp_path), "rebuild": False, "buildah_binary": str(tmp_path / "none")}
    with pytest.raises(ImageError, match=r"it is not there\. Install the package buildah"):
        _image_build.manage(params(**more), False)
    checked = _image_build.manage(params(**more), True)
    assert checked["actions"] == ["Build h.example.com/x:1", f"Write h.example.com/x:1 to {checked['archive']}"]
    assert (checked["digest"], checked["resources"][0]["status"]) == (None, "drift")
    assert not list(tmp_path.iterdir())


def test_label() -> None:
    labels = {"io.buildah.version": "1.28.2", _image_build.LABEL: "abc"}
    assert _image_build.label_of(json.dumps({"OCIv1": {"config": {"Labels": labels}}})) == "abc"
    for other in ({}, {"OCIv1": {"config": {"Labels": None}}}, {"OCIv1": {"config": {"Labels": {"a": "b"}}}}):
        assert _image_build.label_of(json.dumps(other)) is None


def test_a_password_is_in_a_file_that_goes() -> None:
    given = {"username": "joe", "password": "s3cret", "auth_file": None}
    with _image_build._login(given, "h.example.com") as arguments:
        assert arguments[0] == "--authfile"
        assert os.stat(arguments[1]).st_mode & 0o777 == 0o600
        assert json.loads(Path(arguments[1]).read_text()) == {"auths": {"h.example.com": {"auth": "am9lOnMzY3JldA=="}}}
    assert not os.path.exists(arguments[1])
    with _image_build._login({**given, "username": None, "auth_file": "/f"}, "h") as arguments:
        assert arguments == ["--authfile", "/f"]
    with _image_build._login({**given, "username": None}, "h") as arguments:
        assert arguments == []
