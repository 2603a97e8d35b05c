# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images import build as images_build
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._images.oci import ImageError
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, limits_count_from


def file(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "content": None, "src": None, "checksum": None, "mode": "0644", **more}


def params(*files: dict[str, t.Any], **more: t.Any) -> dict[str, t.Any]:
    return {"name": "h.example.com/x:1", "containerfile": "FROM scratch\n", "files": list(files), **more}


# options, what the message has
REFUSED = [
    ({"name": "h.example.com/x"}, "is not the full name of an image"),
    ({"name": "h.example.com/x@sha256:" + "a" * 64}, "set a tag; the digest is known only after the build"),
    ({"containerfile": "RUN true\n"}, "the containerfile has no FROM"),
    ({"files": [file("a/b", content="")]}, "'a/b' is not a valid name for a file of the context"),
    ({"files": [file("Containerfile", content="")]}, "'Containerfile' is not a valid name for a file of the context"),
    ({"files": [file("a", src="https://h.example.com/a")]}, "https://h.example.com/a would not be verified"),
    ({"files": [file("a", src="/a", checksum="md5:1")]}, "the checksum of a is 'md5:1'; set it to sha256:"),
]


@pytest.mark.parametrize(("more", "text"), REFUSED, ids=[row[1] for row in REFUSED])
def test_what_is_refused(more: dict[str, t.Any], text: str) -> None:
    assert text in message_of(ImageError, images_build.check, params(**more))


def test_inputs(tmp_path: Path) -> None:
    """The order of files makes no other image, and anything else does."""
    source = tmp_path / "source"
    source.write_text("data")
    first, second = file("one", content="1"), file("two", src=str(source))
    known = images_build.inputs(params(first, second))
    assert images_build.inputs(params(second, first)) == known
    made = {
        images_build.inputs(params(first)),
        images_build.inputs(params(first, second, containerfile="FROM scratch\n\n")),
        images_build.inputs(params(file("one", content="2"), second)),
        images_build.inputs(params(file("one", content="1", mode="0755"), second)),
        images_build.inputs(params(file("uno", content="1"), second)),
    }
    source.write_text("other")
    made.add(images_build.inputs(params(first, second)))
    assert len(made | {known}) == 7
    source.unlink()
    with pytest.raises(FabricError, match="Reading .*source for the context: no such file"):
        images_build.inputs(params(first, second))
    # What has been verified need not be there.
    assert images_build.inputs(params(file("two", src=str(source), checksum="sha256:" + "0" * 64)))


def test_no_buildah(tmp_path: Path) -> None:
    """It is needed to build, and not to say what would be built."""
    more = {"output": "archive", "directory": str(tmp_path), "rebuild": False, "buildah_binary": str(tmp_path / "none")}
    with pytest.raises(ImageError, match=r"is not an executable file\. Install the package buildah"):
        images_build.manage(params(**more), False)
    checked = images_build.manage(params(**more), True)
    assert checked["actions"] == ["Build h.example.com/x:1", f"Write h.example.com/x:1 to {checked['archive']}"]
    assert (checked["digest"], checked["resources"][0]["status"]) == (None, "drift")
    assert not list(tmp_path.iterdir())


def test_label() -> None:
    labels = {"io.buildah.version": "1.28.2", images_build.LABEL: "abc"}
    assert images_build.label_of(json.dumps({"OCIv1": {"config": {"Labels": labels}}})) == "abc"
    for other in ({}, {"OCIv1": {"config": {"Labels": None}}}, {"OCIv1": {"config": {"Labels": {"a": "b"}}}}):
        assert images_build.label_of(json.dumps(other)) is None


def test_a_password_is_in_a_file_that_goes() -> None:
    given = {"username": "joe", "password": "s3cret", "auth_file": None}
    with images_build._login(given, "h.example.com") as arguments:
        assert arguments[0] == "--authfile"
        assert os.stat(arguments[1]).st_mode & 0o777 == 0o600
        assert json.loads(Path(arguments[1]).read_text()) == {"auths": {"h.example.com": {"auth": "am9lOnMzY3JldA=="}}}
    assert not os.path.exists(arguments[1])
    with images_build._login({**given, "username": None, "auth_file": "/f"}, "h") as arguments:
        assert arguments == ["--authfile", "/f"]
    with images_build._login({**given, "username": None}, "h") as arguments:
        assert arguments == []


def scripted(directory: Path, script: str) -> images_build.Build:
    """Return a build by a buildah that is a shell script; ``$error`` is the file that steps know as ERROR."""
    buildah = directory / "buildah"
    buildah.write_text(f'#!/bin/sh\nerror=${{3%%:*}}\necho "$*" >>{directory}/calls\n{script}')
    buildah.chmod(0o755)
    more = {"output": "archive", "directory": str(directory / "work"), "buildah_binary": str(buildah)}
    login = {"auth_file": None, "username": None}
    return images_build.Build(params(**more, **login, isolation="chroot", timeout=60), False)


# Of buildah 1.28.2: a step whose output comes with what buildah adds to it.
FAILED_STEP = """\
STEP 1/3: FROM scratch
STEP 2/3: RUN echo earlier
earlier
STEP 3/3: RUN check
{output}subprocess exited with status 3
subprocess exited with status 3
Error: building at STEP "RUN check": exit status 3
"""
LONG_OUTPUT = "".join(f"line {number}\n" for number in range(100))
# the step's output, what it has written to ERROR, what the message has
FAILURES = [
    ("missing: a\nmissing: b\n", "", "missing: a | missing: b"),
    ("", "missing: a\nmissing: b\n", "missing: a | missing: b"),
    ("out\n", "missing: a.\n", "out | missing: a"),
    ("", "", "nothing"),
    (LONG_OUTPUT, "", " | ".join(f"line {number}" for number in range(70, 100))),
    (LONG_OUTPUT, "why\n", " | ".join([*(f"line {number}" for number in range(71, 100)), "why"])),
]


@pytest.mark.parametrize(("output", "error", "said"), FAILURES)
def test_a_failed_step_says_why(tmp_path: Path, output: str, error: str, said: str) -> None:
    """What buildah adds takes no room from it, nor does the output of earlier steps."""
    (tmp_path / "printed").write_text(FAILED_STEP.format(output=output))
    (tmp_path / "written").write_text(error)
    build = scripted(tmp_path, f"cat {tmp_path}/written >$error; cat {tmp_path}/printed >&2; exit 3")
    assert message_of(ImageError, build._build) == (
        f"Building h.example.com/x:1: buildah exited with status 3 at STEP 3/3: RUN check. Output: {said}. "
        "Correct the step that failed; the previous image is still there"
    )
    assert not list((tmp_path / "work").iterdir())


def test_an_error_of_buildah_itself_is_kept(tmp_path: Path) -> None:
    copy = 'Error: building at STEP "COPY a /": checking on sources under "/c": copier: stat: "/a": no such file'
    build = scripted(tmp_path, f"echo STEP 1/2: FROM scratch; echo STEP 2/2: COPY a /; echo '{copy}' >&2; exit 125")
    message = message_of(ImageError, build._build)
    assert f"buildah exited with status 125 at STEP 2/2: COPY a /. Output: {copy}. Correct" in message


def test_a_build_that_is_not_done_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, pid = tmp_path / "mark", tmp_path / "pid"
    build = scripted(tmp_path, f"echo STEP 1/1: RUN forever; echo $$ >{pid}; touch {mark}; exec sleep 1000")
    # Without a namespace, in which it would have another number.
    build.params, build._alone = {**build.params, "timeout": 1}, ()
    limits_count_from(mark, monkeypatch)
    with pytest.raises(ImageError, match=r"timed out after 1 s and was killed\. Output: STEP 1/1: RUN forever\."):
        build._build()
    assert has_ended(int(pid.read_text()))


NOT_RUN = "Close_Fd sealing memfd copy: Device or resource busy"
# the error of a first and a second call, the number of calls, whether the build fails
CALLS = [
    ([NOT_RUN], 2, False),
    ([NOT_RUN, NOT_RUN], 2, True),
    ([NOT_RUN, "no"], 2, True),
    (["Device or resource busy"], 1, True),
    (["Close_Fd sealing memfd copy: Operation not permitted"], 1, True),
]


@pytest.mark.parametrize(("errors", "calls", "fails"), CALLS)
def test_a_step_that_was_not_run_is_run(tmp_path: Path, errors: list[str], calls: int, fails: bool) -> None:
    for number, error in enumerate(errors, 1):
        (tmp_path / str(number)).write_text(FAILED_STEP.format(output=error + "\n"))
    build = scripted(tmp_path, f"cd {tmp_path}; answer=$(grep -c . calls); ! cat $answer 2>/dev/null")
    with pytest.raises(ImageError) if fails else contextlib.nullcontext():
        build._build()
    assert len((tmp_path / "calls").read_text().splitlines()) == calls
