# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initramfs images made here by hand: what the reader says, and how it says no."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
import struct
import subprocess
import time
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import reader
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import (
    Contents,
    InitramfsError,
    closure,
    forced,
    from_cmdline,
)
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.inspect import inspect, unfinished
from ansible_collections.rdmaops.gpu_fabric.tests.support import need_tool

VERSION = "6.12.1"
MODULES = f"usr/lib/modules/{VERSION}"
LINK, FILE, DIRECTORY = 0o120777, 0o100644, 0o040755


class Member(t.NamedTuple):
    name: str
    data: bytes = b""
    mode: int = FILE
    inode: int = 0
    links: int = 1


def cpio(*members: Member, magic: bytes = b"070701", trailer: bool = True) -> bytes:
    data = b""
    for number, member in enumerate((*members, *([Member("TRAILER!!!", mode=0)] if trailer else ())), 1):
        name = member.name.encode("utf-8", "surrogateescape") + b"\0"
        inode = member.inode or number
        fields = (inode, member.mode, 0, 0, member.links, 0, len(member.data), 8, 1, 0, 0, len(name), 0)
        data += magic + b"".join(b"%08X" % field for field in fields) + name
        data += bytes(-len(data) % 4) + member.data
        data += bytes(-len(data) % 4)
    return data


def text(name: str, content: str) -> Member:
    return Member(name, content.encode())


def link(name: str, target: str) -> Member:
    return Member(name, target.encode(), LINK)


DEP = (
    "kernel/drivers/infiniband/core/ib_core.ko.xz:\n"
    "kernel/drivers/infiniband/core/ib_uverbs.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz\n"
    "kernel/drivers/infiniband/hw/mlx5/mlx5-ib.ko.xz: kernel/drivers/infiniband/core/ib_uverbs.ko.xz"
    " kernel/drivers/infiniband/core/ib_core.ko.xz kernel/net/mlx5_core.ko.xz\n"
)
TREE = (
    Member("usr/lib", mode=DIRECTORY),
    link("lib", "usr/lib"),
    Member(f"{MODULES}/kernel/drivers/infiniband/core/ib_core.ko.xz", b"x" * 999),
    Member(f"{MODULES}/kernel/drivers/infiniband/core/ib_uverbs.ko.zst", b"x"),
    Member(f"{MODULES}/kernel/drivers/infiniband/hw/mlx5/mlx5-ib.ko", b"x"),
    Member(f"{MODULES}/kernel/net/mlx5_core.ko.gz", b"x"),
    text(f"{MODULES}/modules.dep", DEP),
    text("etc/modprobe.d/a.conf", "options ib_core netns_mode=0\n"),
    text("usr/lib/modprobe.d/b.conf", "# b\n"),
    text("usr/lib/modprobe.d/README", "not read\n"),
)
DEBIAN = (*TREE, text("conf/initramfs.conf", ""), text("conf/modules", "# a comment\n\nmlx5-ib\n"))
MICROCODE = cpio(Member("kernel/x86/microcode/GenuineIntel.bin", b"m" * 77))


def read(tmp_path: Path, *images: bytes) -> Contents:
    pairs = []
    for number, data in enumerate(images):
        path = tmp_path / f"image{number}"
        path.write_bytes(data)
        pairs.append((f"/boot/image{number}", str(path)))
    return reader.read(pairs)


EXPECTED = Contents(
    image="/boot/image0",
    kind="initramfs-tools",
    modules=["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"],
    forced=["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"],
    modprobe={"/etc/modprobe.d/a.conf": "options ib_core netns_mode=0\n", "/usr/lib/modprobe.d/b.conf": "# b\n"},
    arguments={},
    requires={"ib_uverbs": ["ib_core"], "mlx5_ib": ["ib_core", "ib_uverbs", "mlx5_core"]},
    versions=[VERSION],
)


def by_tool(*argv: str) -> t.Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        return subprocess.run([need_tool(argv[0]), *argv[1:]], input=data, stdout=subprocess.PIPE, check=True).stdout

    return compress


COMPRESSORS: dict[str, t.Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "xz": lambda data: lzma.compress(data, check=lzma.CHECK_CRC32),
    "lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    "bzip2": bz2.compress,
    "zstd": by_tool("zstd", "-q", "-c"),
    "zstd-stream": by_tool("zstd", "-q", "-c", "--no-check", "-T0"),
    "lz4": by_tool("lz4", "-l", "-c"),
}


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressors(tmp_path: Path, name: str) -> None:
    data = COMPRESSORS[name](cpio(*DEBIAN))
    assert read(tmp_path, data) == EXPECTED
    assert read(tmp_path, MICROCODE + bytes(512) + data + bytes(9)) == EXPECTED


# Where a frame ends is known for these, so that something else may follow.
@pytest.mark.parametrize("name", ["none", "gzip", "xz", "bzip2", "zstd", "lz4"])
def test_segments(tmp_path: Path, name: str) -> None:
    compress = COMPRESSORS[name]
    half = len(DEBIAN) // 2
    data = MICROCODE + compress(cpio(*DEBIAN[:half])) + bytes(16) + gzip.compress(cpio(*DEBIAN[half:]))
    assert read(tmp_path, data) == EXPECTED
    both = compress(cpio(*DEBIAN[:half]) + bytes(300) + cpio(*DEBIAN[half:]))
    assert read(tmp_path, both) == EXPECTED


def test_several_images(tmp_path: Path) -> None:
    assert read(tmp_path, MICROCODE, cpio(*DEBIAN)) == EXPECTED._replace(image="/boot/image1")


def test_an_image_without_modules_is_of_a_kernel_too(tmp_path: Path) -> None:
    found = read(tmp_path, cpio(text("lib/modules/6.1/modules.dep", "")))
    assert (found.versions, found.modules) == (["6.1"], [])


def test_checksummed_archive(tmp_path: Path) -> None:
    assert read(tmp_path, cpio(*DEBIAN, magic=b"070702")) == EXPECTED


def test_boot_configuration_at_the_end(tmp_path: Path) -> None:
    config = b"feature.option = 1\n\0"
    tail = config + struct.pack("<II", len(config), sum(config)) + b"#BOOTCONFIG\n"
    assert read(tmp_path, gzip.compress(cpio(*DEBIAN)) + tail) == EXPECTED


def test_a_later_segment_replaces(tmp_path: Path) -> None:
    later = cpio(text("etc/modprobe.d/a.conf", "options ib_core netns_mode=1\n"), text("conf/modules", ""))
    found = read(tmp_path, cpio(*DEBIAN) + gzip.compress(later))
    assert found.modprobe["/etc/modprobe.d/a.conf"] == "options ib_core netns_mode=1\n"
    assert found.forced == []


FORCED_CASES = [
    # members beside the tree, kind, forced, arguments
    ([text("conf/arch.conf", "")], "initramfs-tools", [], {}),
    (
        [text("conf/arch.conf", ""), text("conf/modules", "ib-core netns_mode=1\n")],
        "initramfs-tools",
        ["ib_core"],
        {"ib_core": "netns_mode=1"},
    ),
    ([text("conf/arch.conf", ""), text("conf/modules", "  # ib_core\nnot_there\n")], "initramfs-tools", [], {}),
    ([Member("usr/lib/dracut", mode=DIRECTORY)], "dracut", [], {}),
    (
        [
            Member("usr/lib/dracut", mode=DIRECTORY),
            text("etc/cmdline.d/20-force_drivers.conf", "rd.driver.pre=ib_uverbs\n"),
        ],
        "dracut",
        ["ib_core", "ib_uverbs"],
        {},
    ),
    (
        [Member("usr/lib/dracut", mode=DIRECTORY), text("etc/cmdline", "quiet rd.driver.pre=a,ib-core")],
        "dracut",
        ["ib_core"],
        {},
    ),
    ([Member("usr/lib/dracut", mode=DIRECTORY), text("usr/lib/modules-load.d/x.conf", "ib_core\n")], "dracut", [], {}),
    (
        [
            Member("usr/lib/dracut", mode=DIRECTORY),
            Member("usr/lib/systemd/systemd-modules-load"),
            text("usr/lib/modules-load.d/x.conf", "; no\n# no\nib_core\n"),
        ],
        "dracut",
        ["ib_core"],
        {},
    ),
    (
        [
            Member("usr/lib/systemd/systemd-modules-load"),
            text("usr/lib/modules-load.d/x.conf", "ib_core\n"),
            link("etc/modules-load.d/x.conf", "/dev/null"),
        ],
        "unknown",
        [],
        {},
    ),
    (
        [Member("usr/lib/systemd/systemd-modules-load"), text("usr/lib/modules-load.d/x.conf", "ib_core option\n")],
        "unknown",
        [],
        {},
    ),
    (
        [Member("init_functions"), text("config", 'EARLYHOOKS="udev"\nMODULES="ib_core"\n')],
        "mkinitcpio",
        ["ib_core"],
        {},
    ),
    (
        [
            text("conf/arch.conf", ""),
            text("conf/modules", "mlx5_core\n"),
            text(f"{MODULES}/modules.softdep", "softdep mlx5_core post: mlx5_ib\n"),
        ],
        "initramfs-tools",
        ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"],
        {},
    ),
    (
        [
            text("conf/arch.conf", ""),
            text("conf/modules", "mlx5_core\n"),
            text("etc/modprobe.d/s.conf", "softdep mlx5_core pre: ib_core\n"),
        ],
        "initramfs-tools",
        ["ib_core", "mlx5_core"],
        {},
    ),
]


@pytest.mark.parametrize(("members", "kind", "names", "arguments"), FORCED_CASES)
def test_forced(tmp_path: Path, members: list[Member], kind: str, names: list[str], arguments: dict[str, str]) -> None:
    found = read(tmp_path, cpio(*TREE, *members))
    assert (found.kind, found.forced, found.arguments) == (kind, names, arguments)


CMDLINE_CASES = [
    # kind, command line, modules
    ("dracut", "root=/dev/sda rd.driver.pre=mlx5-ib,ib_core quiet", ["mlx5_ib", "ib_core"]),
    ("dracut", "rd.modules_load=a modules_load=b", ["a", "b"]),
    ("dracut", "quiet -- rd.driver.pre=a", []),
    ("dracut", '"rd.driver.pre=a"', ["a"]),
    ("initramfs-tools", "rd.driver.pre=a modules_load=b", []),
    ("dracut", "", []),
]


@pytest.mark.parametrize(("kind", "cmdline", "modules"), CMDLINE_CASES)
def test_from_cmdline(kind: str, cmdline: str, modules: list[str]) -> None:
    assert from_cmdline(kind, cmdline) == modules


def test_forced_by_the_command_line(tmp_path: Path) -> None:
    found = read(tmp_path, cpio(*TREE, Member("usr/lib/dracut", mode=DIRECTORY)))
    assert forced(found) == []
    assert forced(found, "rd.driver.pre=ib-uverbs,none") == ["ib_core", "ib_uverbs"]


def test_closure_of_a_loop() -> None:
    assert closure({"a": ["b"], "b": ["a", "c"]}, ["a"]) == ["a", "b", "c"]


def test_links(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        cpio(
            *TREE,
            link("etc/modprobe.d/nvidia.conf", "/etc/alternatives/nvidia.conf"),
            link("etc/alternatives/nvidia.conf", "../nvidia/current.conf"),
            text("etc/nvidia/current.conf", "options nvidia a=1\n"),
            link("etc/modprobe.d/b.conf", "/dev/null"),
            link("run", "/loop"),
            link("loop", "/run"),
        ),
    )
    assert found.modprobe == {
        "/etc/modprobe.d/a.conf": "options ib_core netns_mode=0\n",
        "/etc/modprobe.d/b.conf": "",
        "/etc/modprobe.d/nvidia.conf": "options nvidia a=1\n",
        "/usr/lib/modprobe.d/b.conf": "# b\n",
    }


def test_hard_links(tmp_path: Path) -> None:
    data = b"options ib_core netns_mode=0\n"
    found = read(
        tmp_path,
        cpio(
            Member("etc/modprobe.d/a.conf", b"", FILE, 7, 3),
            Member("etc/modprobe.d/b.conf", b"", FILE, 7, 3),
            Member("usr/share/elsewhere", data, FILE, 7, 3),
        ),
    )
    assert found.modprobe == dict.fromkeys(["/etc/modprobe.d/a.conf", "/etc/modprobe.d/b.conf"], data.decode())


def test_names_that_leave_the_image_are_nothing(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        cpio(
            text("/etc/modprobe.d/a.conf", "a"),
            text("../etc/modprobe.d/b.conf", "b"),
            text("./etc/modprobe.d/c.conf", "c"),
        ),
    )
    assert found.modprobe == {"/etc/modprobe.d/a.conf": "a", "/etc/modprobe.d/c.conf": "c"}


def bad_header(at: int, value: bytes) -> bytes:
    data = bytearray(cpio(*DEBIAN))
    data[at : at + len(value)] = value
    return bytes(data)


BROKEN_CASES = [
    # image, text behind "Reading the initramfs /boot/image0: "
    (b"", "it is empty"),
    (bytes(4096), "it is empty"),
    (cpio(), "it is empty"),
    # LZ4's frame format, which the kernel does not know.
    (b"\x04\x22\x4d\x18" + bytes(90), "it begins with 0x04224d180000: not a cpio archive and not a known compression"),
    (b"\x28\xb5\x2f\xfd", "its zstd data end early: the image is truncated"),
    (b"garbage!", "it begins with 0x676172626167: not a cpio archive and not a known compression"),
    (cpio(*DEBIAN)[:50], "it ends inside a header (byte 0 of archive 1): the image is truncated"),
    (cpio(*DEBIAN)[:112], "it ends inside a name (byte 0 of archive 1): the image is truncated"),
    (
        cpio(TREE[2])[:300],
        f"it ends inside '{MODULES}/kernel/drivers/infiniband/core/ib_core.ko.xz' (archive 1): the image is truncated",
    ),
    (
        cpio(*DEBIAN, trailer=False),
        "it ends inside a header (byte %d of archive 1): the image is truncated" % len(cpio(*DEBIAN, trailer=False)),
    ),
    (bad_header(94, b"00000000"), "a name of 0 bytes at byte 0 of archive 1"),
    (bad_header(94, b"FFFFFFFF"), "a name of 4294967295 bytes at byte 0 of archive 1"),
    (bad_header(54, b"  -1 +1_"), "a damaged cpio header at byte 0 of archive 1"),
    (bad_header(54, b"FFFFFFFF"), "it ends inside 'usr/lib' (archive 1): the image is truncated"),
    (cpio(*DEBIAN) + b"junk!!", "data that is not an archive begins at byte %d" % len(cpio(*DEBIAN))),
    (gzip.compress(b"junk!!"), "archive 1 holds no cpio archive"),
    (gzip.compress(cpio(*DEBIAN))[:-200], "its gzip data end early: the image is truncated"),
    (lzma.compress(cpio(*DEBIAN))[:-40], "its xz data end early: the image is truncated"),
    (bz2.compress(cpio(*DEBIAN))[:-40], "its bzip2 data end early: the image is truncated"),
    (b"\x1f\x8b\x08\x00" + b"\xff" * 60, "Error -3 while decompressing data: invalid block type"),
]


# Without names of their own the cases would be called by their bytes, and gzip writes down the time.
@pytest.mark.parametrize(("data", "problem"), BROKEN_CASES, ids=range(len(BROKEN_CASES)))
def test_broken(tmp_path: Path, data: bytes, problem: str) -> None:
    with pytest.raises(InitramfsError) as caught:
        read(tmp_path, data)
    assert str(caught.value) == "Reading the initramfs /boot/image0: " + problem


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_truncated_for_a_tool(tmp_path: Path, name: str) -> None:
    noise = Member("noise", os.urandom(1 << 20))
    data = COMPRESSORS[name](cpio(noise, *DEBIAN))
    with pytest.raises(InitramfsError, match=r"truncated|cannot read it"):
        read(tmp_path, data[: len(data) // 2])


def test_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_UNPACKED", 8 << 20)
    data = gzip.compress(cpio(Member("zeros", bytes(64 << 20))))
    assert len(data) < 1 << 20
    with pytest.raises(InitramfsError) as caught:
        read(tmp_path, data)
    assert str(caught.value) == "Reading the initramfs /boot/image0: it unpacks to more than 0 GiB"


def test_too_much_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_KEPT", 1 << 20)
    members = [text(f"etc/modprobe.d/{number}.conf", "#" * (1 << 18)) for number in range(9)]
    with pytest.raises(InitramfsError) as caught:
        read(tmp_path, gzip.compress(cpio(*members)))
    assert str(caught.value) == "Reading the initramfs /boot/image0: its configuration files are larger than 1 MiB"


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_MEMBERS", 5)
    with pytest.raises(InitramfsError) as caught:
        read(tmp_path, cpio(*DEBIAN))
    assert str(caught.value) == "Reading the initramfs /boot/image0: it has more than 5 members"


def test_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    with pytest.raises(InitramfsError) as caught:
        read(tmp_path, b"\x28\xb5\x2f\xfd" + bytes(90))
    assert str(caught.value) == (
        "Reading the initramfs /boot/image0: it is compressed with zstd, and there is no zstd to read it: "
        "install that package"
    )


def test_missing_and_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InitramfsError) as caught:
        inspect(["/boot/gone"], root=str(tmp_path), cache=None)
    assert str(caught.value) == "Reading the initramfs /boot/gone: No such file or directory"
    (tmp_path / "boot" / "d").mkdir(parents=True)
    with pytest.raises(InitramfsError) as caught:
        inspect(["/boot/d"], root=str(tmp_path), cache=None)
    assert str(caught.value) == "Reading the initramfs /boot/d: Is a directory"
    with pytest.raises(InitramfsError) as caught:
        inspect([])
    assert str(caught.value) == "The boot entry has no initramfs to look into"


def test_unfinished(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    assert unfinished("/boot/i", str(tmp_path)) is False
    (tmp_path / "boot" / "i.rdmaops-unfinished").touch()
    assert unfinished("/boot/i", str(tmp_path)) is True


class TestCache:
    @pytest.fixture
    def image(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        path = tmp_path / "boot" / "initrd"
        path.parent.mkdir()
        path.write_bytes(cpio(*DEBIAN))
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now + 60 * 10**9)
        return path

    @staticmethod
    def look(image: Path) -> Contents:
        root = image.parents[1]
        return inspect(["/boot/initrd"], root=str(root), cache=str(root / "cache"))

    @staticmethod
    def kept(image: Path) -> Path:
        (path,) = (image.parents[1] / "cache").iterdir()
        return path

    def test_second_look_reads_no_image(self, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = self.look(image)
        assert first == EXPECTED._replace(image="/boot/initrd")
        monkeypatch.setattr(reader, "read", lambda _images: pytest.fail("the image was read again"))
        assert self.look(image) == first

    def test_mode(self, image: Path) -> None:
        self.look(image)
        assert self.kept(image).stat().st_mode & 0o777 == 0o600
        assert self.kept(image).parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("how", ["touch", "replace", "longer"])
    def test_a_changed_image_is_read(self, image: Path, how: str) -> None:
        self.look(image)
        kept = self.kept(image)
        kept.write_text(kept.read_text().replace("initramfs-tools", "from the cache"))
        assert self.look(image).kind == "from the cache"
        if how == "touch":
            os.utime(image, ns=(0, 1))
        elif how == "replace":
            other = image.with_name("other")
            other.write_bytes(image.read_bytes())
            os.utime(other, ns=(image.stat().st_atime_ns, image.stat().st_mtime_ns))
            other.rename(image)
        else:
            with image.open("ab") as stream:
                stream.write(bytes(4))
        assert self.look(image).kind == "initramfs-tools"

    @pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"format": 1}', "[" * 99999, "\xff"])
    def test_a_broken_file_is_ignored(self, image: Path, content: str) -> None:
        self.look(image)
        self.kept(image).write_text(content, encoding="latin-1")
        assert self.look(image).kind == "initramfs-tools"

    def test_another_format_is_ignored(self, image: Path) -> None:
        self.look(image)
        kept = self.kept(image)
        values = json.loads(kept.read_text().replace("initramfs-tools", "old"))
        assert self.look(image).kind == "initramfs-tools"
        kept.write_text(json.dumps({**values, "format": 0}))
        assert self.look(image).kind == "initramfs-tools"

    def test_a_foreign_or_writable_file_is_ignored(self, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.look(image)
        kept = self.kept(image)
        kept.write_text(kept.read_text().replace("initramfs-tools", "evil"))
        kept.chmod(0o622)
        assert self.look(image).kind == "initramfs-tools"
        kept.write_text(kept.read_text().replace("initramfs-tools", "evil"))
        kept.chmod(0o600)
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        assert self.look(image).kind == "initramfs-tools"

    def test_a_link_is_ignored(self, image: Path) -> None:
        self.look(image)
        kept = self.kept(image)
        target = kept.with_name("target")
        target.write_text(kept.read_text().replace("initramfs-tools", "evil"))
        target.chmod(0o600)
        kept.unlink()
        kept.symlink_to(target)
        assert self.look(image).kind == "initramfs-tools"


def read_or_error(tmp_path: Path, data: bytes) -> Contents | InitramfsError:
    try:
        return read(tmp_path, data)
    except InitramfsError as exc:
        return exc


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600), st.sampled_from(["none", "gzip", "xz", "bzip2", "cpio", "zstd-like", "lz4-like"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, how: str) -> None:
    made = {
        "cpio": lambda: cpio(*DEBIAN)[: len(data)] + data,
        "zstd-like": lambda: b"\x28\xb5\x2f\xfd" + data,
        "lz4-like": lambda: b"\x02\x21\x4c\x18" + data,
    }.get(how, lambda: COMPRESSORS[how](data))()
    assert isinstance(read_or_error(tmp_path_factory.mktemp("image"), made), (Contents, InitramfsError))


@settings(max_examples=200, deadline=None)
@given(st.binary(min_size=1, max_size=8), st.data())
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, damage: bytes, data: st.DataObject) -> None:
    image = bytearray(cpio(*DEBIAN))
    at = data.draw(st.integers(0, len(image) - 1))
    image[at : at + len(damage)] = damage
    assert isinstance(read_or_error(tmp_path_factory.mktemp("image"), bytes(image)), (Contents, InitramfsError))


@given(st.text(), st.text())
def test_any_lists(dep: str, softdep: str) -> None:
    assert isinstance(reader.requirements(dep, softdep), dict)
    assert isinstance(reader.load_lines(dep), list)
    assert isinstance(from_cmdline("dracut", dep), list)


@given(st.dictionaries(st.sampled_from(["a", "a/b", "c"]), st.sampled_from(["/a", "../c", "b", "a/b", "."])), st.text())
def test_any_links(links: dict[str, str], name: str) -> None:
    assert isinstance(reader.resolve(links, name), (str, type(None)))
    assert isinstance(reader.resolve(links, "a/b/c"), (str, type(None)))
