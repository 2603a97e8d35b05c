# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there already, on real file systems: links, attributes, and what others have put in the way."""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import FileError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files_write import atomic_write
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_root, skip_or_fail

ACL = "system.posix_acl_access"
# Tag, rights and id of each entry (linux/posix_acl_xattr.h): the owner, the user 4711, the group, the mask, others.
ENTRIES = ((0x01, 6, 0xFFFFFFFF), (0x02, 4, 4711), (0x04, 4, 0xFFFFFFFF), (0x10, 4, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF))
OTHER = 4711


@pytest.fixture(params=["/dev/shm", "/var/tmp"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory in a tmpfs, and one in what the machine has."""
    need_root()
    with tempfile.TemporaryDirectory(prefix="rdmaops-", dir=request.param) as path:
        yield Path(path)


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def refused(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        atomic_write(str(path), "new\n")
    return str(caught.value)


@pytest.mark.parametrize("target", ["real", "{place}/real", "deep/../real", "second", "deep/up/real"])
def test_a_symbolic_link_stays_and_its_file_is_written(place: Path, target: str) -> None:
    (place / "deep").mkdir()
    (place / "deep/up").symlink_to("..")
    (place / "second").symlink_to("real")
    (place / "real").write_text("old\n")
    (place / "link").symlink_to(target.format(place=place))
    atomic_write(str(place / "link"), "new\n")
    assert (place / "link").is_symlink()
    assert (place / "real").read_text() == "new\n"
    assert not (place / "real").is_symlink()
    assert names(place) == ["deep", "link", "real", "second"]


def test_a_symbolic_link_to_a_file_that_is_not_there_yet(place: Path) -> None:
    (place / "link").symlink_to("real")
    atomic_write(str(place / "link"), "new\n", 0o600)
    assert (place / "real").read_text() == "new\n"
    assert (place / "real").stat().st_mode & 0o777 == 0o600


def test_a_link_that_others_can_lead_elsewhere(place: Path) -> None:
    """Each of these is what a user of the host could change between a look and the write."""
    theirs = place / "theirs"
    theirs.mkdir()
    (theirs / "real").write_text("old\n")
    (place / "link").symlink_to("theirs/real")
    begin = f"Writing {place}/link: it is a symbolic link, and the path to its target includes {theirs}"
    end = ". Replace the link with a file, or give the target an owner and permissions like those of /etc"
    os.chown(theirs, OTHER, OTHER)
    assert refused(place / "link") == f"{begin}, which belongs to user ID {OTHER}{end}"
    os.chown(theirs, 0, OTHER)
    theirs.chmod(0o775)
    assert refused(place / "link") == f"{begin}, which is writable by users other than its owner{end}"
    theirs.chmod(0o757)
    assert refused(place / "link") == f"{begin}, which is writable by users other than its owner{end}"
    theirs.chmod(0o755)
    os.chown(theirs / "real", OTHER, OTHER)
    assert refused(place / "link") == f"{begin}/real, which belongs to user ID {OTHER}{end}"
    assert (theirs / "real").read_text() == "old\n"
    os.chown(theirs / "real", 0, 0)
    atomic_write(str(place / "link"), "new\n")
    assert (theirs / "real").read_text() == "new\n"


def test_a_link_of_another_user_on_the_way(place: Path) -> None:
    (place / "real").write_text("old\n")
    (place / "second").symlink_to("real")
    os.lchown(place / "second", OTHER, OTHER)
    (place / "link").symlink_to("second")
    assert f"includes {place}/second, which belongs to user ID {OTHER}" in refused(place / "link")
    assert (place / "real").read_text() == "old\n"


def test_a_link_to_a_directory_that_is_not_there(place: Path) -> None:
    (place / "link").symlink_to("none/real")
    assert refused(place / "link") == f"Writing {place}/link: it is a symbolic link, and {place}/none does not exist"
    (place / "none").touch()
    assert refused(place / "link") == f"Writing {place}/link: Not a directory"


def test_links_in_a_circle(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")
    assert refused(place / "a") == f"Writing {place}/a: Too many levels of symbolic links"


def test_what_is_no_file_is_not_replaced(place: Path) -> None:
    os.mkfifo(place / "fifo")
    (place / "null").symlink_to("/dev/null")
    assert refused(place / "fifo") == f"Writing {place}/fifo: {place}/fifo is not a regular file. Name another path"
    assert refused(place / "null") == f"Writing {place}/null: /dev/null is not a regular file. Name another path"
    assert Path("/dev/null").is_char_device()
    assert names(place) == ["fifo", "null"]


def test_a_hard_link_keeps_what_it_had(place: Path) -> None:
    """As with `sed -i` and with Ansible's own modules: a rename gives the name to another file."""
    (place / "real").write_text("old\n")
    os.link(place / "real", place / "other")
    atomic_write(str(place / "real"), "new\n")
    assert (place / "real").read_text() == "new\n"
    assert (place / "other").read_text() == "old\n"


def set_or_skip(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as exc:
        skip_or_fail(f"the file system of {path.parent.parent} takes no {name}: {exc.strerror}")


@pytest.mark.parametrize("name", ["user.origin", "security.rdmaops", "trusted.rdmaops", ACL])
def test_extended_attributes_are_kept(place: Path, name: str) -> None:
    path = place / "real"
    path.write_text("old\n")
    value = (
        struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in ENTRIES) if name == ACL else b"x\0y"
    )
    set_or_skip(path, name, value)
    before = path.stat()
    atomic_write(str(path), "new\n")
    assert os.getxattr(path, name) == value
    assert path.stat().st_ino != before.st_ino
    assert path.stat().st_mode == before.st_mode


def test_owner_and_mode_are_kept(place: Path) -> None:
    path = place / "real"
    path.write_text("old\n")
    os.chown(path, OTHER, OTHER + 1)
    path.chmod(0o4750)
    atomic_write(str(path), "new\n")
    result = path.stat()
    assert (result.st_uid, result.st_gid, result.st_mode & 0o7777) == (OTHER, OTHER + 1, 0o4750)


def test_a_temporary_file_of_another_user(place: Path) -> None:
    """In /tmp another user may have made it, to own the file in the end, or to hold its lock."""
    temporary = place / ".r.json.rdmaops-new"
    temporary.touch()
    os.chown(temporary, OTHER, OTHER)
    with temporary.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert refused(place / "r.json") == (
            f"Writing {place}/r.json: {temporary} is in the way and was not created by this user. Remove it"
        )
    assert names(place) == [temporary.name]


def test_a_leftover_that_had_its_owner_already(place: Path) -> None:
    """A module that was killed between the change of the owner and the rename."""
    for name in ("r.json", ".r.json.rdmaops-new"):
        (place / name).write_text("old and long\n")
        os.chown(place / name, OTHER, OTHER)
    atomic_write(str(place / "r.json"), "new\n")
    assert (place / "r.json").read_text() == "new\n"
    assert (place / "r.json").stat().st_uid == OTHER
    assert names(place) == ["r.json"]


def test_a_temporary_file_with_another_name(place: Path) -> None:
    (place / "other").write_text("of ours\n")
    os.link(place / "other", place / ".r.json.rdmaops-new")
    assert "is in the way and was not created by this user" in refused(place / "r.json")
    assert (place / "other").read_text() == "of ours\n"


def test_a_temporary_file_that_is_a_fifo(place: Path) -> None:
    temporary = place / ".r.json.rdmaops-new"
    os.mkfifo(temporary)
    assert refused(place / "r.json").startswith(f"Writing {place}/r.json: ")
    assert names(place) == [temporary.name]
