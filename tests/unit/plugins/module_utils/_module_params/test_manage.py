# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""modprobe_options without Ansible: what it refuses, decides and tells."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import BootEntry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._files import HEADER
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs.contents import Contents
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kmod.plan_model import ConflictError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params import manage as module_params
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._module_params.prediction import Sources
from ansible_collections.rdmaops.gpu_fabric.tests.support.failures import message_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import options_of
from ansible_collections.rdmaops.gpu_fabric.tests.support.trees import write_tree

OURS = "/etc/modprobe.d/zz-rdmaops-ib_core.conf"
OUR_TEXT = HEADER + "\noptions ib_core x=1\n"
FOREIGN = "/etc/modprobe.d/a.conf"
IMAGE = "/boot/initrd.img-7.2"
ONLY = "and only strings and integers define exactly what reaches the kernel. Quote it as the kernel should see it, for example"
YAML = "(YAML reads on, off, yes and no as booleans.)"
WRITING = (
    "has a line break, another control character or a double quote in its value, which modprobe.d cannot "
    "express. Leave it out."
)
RDMA = (
    "netns_mode of ib_core is managed by the module rdmaops.gpu_fabric.rdma_system, which determines when it takes effect: "
    "set its option netns_mode instead."
)


def params(**options: t.Any) -> dict[str, t.Any]:
    return options_of("modprobe_options", **{"name": "ib-core", "options": {"x": "1"}, **options})


def name_error(name: str) -> str:
    return (
        f"name: {name!r} is not the name of a kernel module. Write it as lsmod shows it, without directory and suffix, for "
        "example mlx5_core."
    )


# options of the task, message
REFUSED: list[tuple[dict[str, t.Any], str]] = [
    *[({"name": name}, name_error(name)) for name in ("a/b", "", " ", "a b", "..", "a\nb", "a.ko", "ä", "a;b")],
    ({"options": {"x": True}}, f"options: x is a boolean, {ONLY} x: 'Y'. {YAML}"),
    ({"options": {"x": False}}, f"options: x is a boolean, {ONLY} x: 'N'. {YAML}"),
    ({"options": {"x": 1.5}}, f"options: x is a floating point number, {ONLY} x: '1.5'. {YAML}"),
    ({"options": {"x": [1, 2]}}, f"options: x is a list, {ONLY} x: '1,2'. {YAML}"),
    ({"options": {"x": {}}}, f"options: x is a dict, {ONLY} x: '1'. {YAML}"),
    ({"options": {"x": None}}, f"options: x is null, {ONLY} x: '1'. {YAML}"),
    ({"options": {"x": "a\nb"}}, f"options: x {WRITING}"),
    ({"options": {"x": "a\tb"}}, f"options: x {WRITING}"),
    ({"options": {"x": 'a"b'}}, f"options: x {WRITING}"),
    ({"options": {"x": "a\0"}}, f"options: x {WRITING}"),
    ({"options": {"x y": "1"}}, "options: 'x y' is not the name of a parameter. modinfo -p ib_core lists them."),
    ({"options": {"x=1": "1"}}, "options: 'x=1' is not the name of a parameter. modinfo -p ib_core lists them."),
    ({"options": {"": "1"}}, "options: '' is not the name of a parameter. modinfo -p ib_core lists them."),
    ({"options": {"--": "1"}}, "options: '--' is not the name of a parameter. modinfo -p ib_core lists them."),
    (
        {"options": {"x-y": 1, "x_y": 1}},
        "options: x_y is given twice, with - and with _, which the kernel treats as the same.",
    ),
    ({"options": {}}, "options: state=present needs at least one. To remove the file, set state to absent."),
    ({"options": None}, "options: state=present needs at least one. To remove the file, set state to absent."),
    ({"options": {"netns_mode": 0}}, RDMA),
    ({"options": {"netns-mode": 0}, "state": "absent"}, RDMA),
    ({"path": "/etc/modprobe.d/zz-rdmaops-ib_core-netns_mode.conf", "options": None, "state": "absent"}, RDMA),
    ({"root": "/nowhere"}, "root: /nowhere is not a directory. Mount or unpack the image first."),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_refused(given: dict[str, t.Any], message: str) -> None:
    assert message_of(FabricError, module_params.check, params(**given)) == message


def test_accepted() -> None:
    given = params(
        name="mlx5-core", options={"a-b": 0, "c": "x y", "d": "0x1F", "e": -3, "f.g": "#1"}, initramfs="rebuild"
    )
    options = {"a_b": "0", "c": "x y", "d": "0x1F", "e": "-3", "f.g": "#1"}
    path = "/etc/modprobe.d/zz-rdmaops-mlx5_core.conf"
    assert module_params.check(given) == module_params.Task("mlx5_core", options, "present", path, "/", "fail", True)
    assert module_params.check(params(name="other", options={"netns_mode": 0})).options == {"netns_mode": "0"}


# value that was written, value that sysfs shows, the same
LIVE = [
    ("1", "1", True), ("1", "Y", True), ("0", "Y", False), ("0x10", "16", True), ("010", "8", True), ("10", "8", False),
    ("-0x1", "-1", True), ("08", "8", False), ("a", "a", True), ("a", "b", False), ("1,2", "1,2", True), ("+5", "5", True),
    ("1", None, False),
]  # fmt: skip


@pytest.mark.parametrize(("value", "live", "same"), LIVE)
def test_same_live(value: str, live: str | None, same: bool) -> None:
    assert module_params.same_live(value, live) is same


class FakeHost(module_params.Host):
    """A host whose sources are given, and on which an initramfs is built in no time."""

    def __init__(self, root: str, src: Sources, live: dict[str, str] | None = None) -> None:
        super().__init__(root)
        self.src = src
        self.parameters = live
        self.did: list[str] = []
        self.new: Contents | None = None
        self.full = False

    def live(self, module: str, name: str) -> str | None:
        return (self.parameters or {}).get(name)

    def loaded(self, module: str) -> bool:
        return self.parameters is not None

    def sources(self, module: str) -> Sources:
        return self.src

    def preflight(self, image: str, kernel: str) -> None:
        self.did.append(f"preflight {image} {kernel}")
        if self.full:
            raise FabricError("Rebuilding the initramfs: no space")

    def rebuild(self, image: str, kernel: str, verify: t.Callable[[t.Any], str | None]) -> None:
        self.did.append(f"rebuild {image} {kernel}")
        reason = verify(self.new)
        if reason is not None:
            raise FabricError(reason)


def contents(text: str = "", forced: bool = False, modules: t.Sequence[str] = ("ib_core",)) -> Contents:
    modprobe = {"/etc/modprobe.d/a.conf": text} if text else {}
    return Contents(IMAGE, "initramfs-tools", modules, modules if forced else [], modprobe, versions={"7.2": [IMAGE]})


def looked(image: Contents | None = None, cmdline: str | None = "ro", **fields: t.Any) -> Sources:
    entry = BootEntry("grub", cmdline=cmdline, initrd=[IMAGE] if image else [], kernel_version="7.2")
    return Sources("/", entry, "ro", image, image is not None, False, False, [])._replace(**fields)


def run(host: FakeHost, check_mode: bool = False, **given: t.Any) -> dict[str, t.Any]:
    return module_params.manage(module_params.check(params(root=host.root, **given)), check_mode, host, [])


def test_everything_that_is_told(tmp_path: Path) -> None:
    write_tree(tmp_path, {FOREIGN: "options ib-core x=Y\n"})
    host = FakeHost(
        str(tmp_path), looked(contents("options ib_core x=Y\n", True), "ro ib_core.y=7"), {"x": "Y", "y": "3"}
    )
    result = run(host, True, options={"x": 1, "y": 2})
    text = OUR_TEXT + "options ib_core y=2\n"
    image = {"image": IMAGE, "contains_module": True, "forced": True, "argument": None}
    drift = {"kind": "modprobe_option", "status": "drift"}
    assert result == {
        "changed": True,
        "actions": [f"Write {OURS}"],
        "diff": [{"before_header": OURS, "after_header": OURS, "before": "", "after": text}],
        "name": "ib_core",
        "path": OURS,
        "parameters": {
            "x": {
                "desired": "1",
                "configured": {"value": "Y", "path": "/etc/modprobe.d/a.conf", "line": 1},
                "cmdline": {"running": None, "next_boot": None},
                "initramfs": {**image, "value": "Y"},
                "live": "Y",
                "next_boot": "Y",
                "next_boot_known": True,
                "next_boot_reason": None,
            },
            "y": {
                "desired": "2",
                "configured": None,
                "cmdline": {"running": None, "next_boot": "7"},
                "initramfs": {**image, "value": None},
                "live": "3",
                "next_boot": "7",
                "next_boot_known": True,
                "next_boot_reason": "the kernel command line of the next boot sets it",
            },
        },
        "conflicts": [],
        "initramfs_stale": False,
        "reload_required": True,
        "after": {"next_boot": {"x": "Y", "y": "7"}, "reload_required": True, "initramfs_stale": True},
        "resources": [
            {**drift, "name": "ib_core.x", "desired": "1", "configured": "Y", "live": "Y", "next_boot": "Y"},
            {**drift, "name": "ib_core.y", "desired": "2", "configured": None, "live": "3", "next_boot": "7"},
        ],
        "problems": [],
        "warnings": [],
    }
    assert not (tmp_path / OURS[1:]).exists()


@pytest.mark.parametrize("state", ["present", "absent"])
def test_check_mode_tells_what_is_done(tmp_path: Path, state: str) -> None:
    if state == "absent":
        write_tree(tmp_path, {OURS: OUR_TEXT})
    host = FakeHost(str(tmp_path), looked())
    checked = run(host, True, state=state)
    assert checked["changed"] is True
    assert run(host, state=state) == checked
    again = run(host, state=state)
    assert (again["changed"], again["actions"], again["diff"]) == (False, [], [])
    assert again["after"] == checked["after"]
    assert run(host, True, state=state) == again
    assert (tmp_path / OURS[1:]).exists() is (state == "present")


# what sysfs shows (None: not loaded), reload required
RELOADS: list[tuple[dict[str, str] | None, bool | None]] = [
    (None, False),
    ({"x": "1"}, False),
    ({"x": "Y"}, False),
    ({"x": "0"}, True),
    ({}, None),
]


@pytest.mark.parametrize(("live", "required"), RELOADS)
def test_reload_required(tmp_path: Path, live: dict[str, str] | None, required: bool | None) -> None:
    result = run(FakeHost(str(tmp_path), looked(), live))
    assert result["reload_required"] is required
    assert result["after"]["reload_required"] is required


def test_a_parameter_that_the_loaded_module_does_not_show(tmp_path: Path) -> None:
    host = FakeHost(str(tmp_path), looked(), live={})
    option = {"name": "nvidia", "options": {"NVreg_GrdmaPciTopoCheckOverride": 1}, "root": str(tmp_path)}
    done = module_params.manage(module_params.check(params(**option)), False, host, [])
    written = (tmp_path / "etc/modprobe.d/zz-rdmaops-nvidia.conf").read_text()
    assert written == HEADER + "\noptions nvidia NVreg_GrdmaPciTopoCheckOverride=1\n"
    assert (done["changed"], done["after"]["reload_required"]) == (True, None)
    assert not module_params.manage(module_params.check(params(**option)), False, host, [])["changed"]


def test_reload_after_a_parameter_was_taken_back(tmp_path: Path) -> None:
    write_tree(tmp_path, {FOREIGN: "options ib_core x=3\n", OURS: OUR_TEXT})
    host = FakeHost(str(tmp_path), looked(), {"x": "1"})
    result = run(host, state="absent", options=None, on_conflict="warn")
    assert result["parameters"]["x"]["configured"] == {"value": "1", "path": OURS, "line": 2}
    assert result["parameters"]["x"]["desired"] is None
    assert result["after"] == {"next_boot": {"x": "3"}, "reload_required": True, "initramfs_stale": False}


def test_no_reload_for_a_parameter_that_nothing_sets_any_more(tmp_path: Path) -> None:
    write_tree(tmp_path, {OURS: OUR_TEXT})
    result = run(FakeHost(str(tmp_path), looked(), {"x": "1"}), state="absent", options=None)
    assert result["actions"] == [f"Remove {OURS}"]
    assert result["reload_required"] is False


def test_a_value_that_a_loaded_module_still_has_is_no_drift(tmp_path: Path) -> None:
    image = contents()._replace(modprobe={OURS: OUR_TEXT})
    result = run(FakeHost(str(tmp_path), looked(image), {"x": "1"}), state="absent", options=None)
    assert [(row["live"], row["desired"], row["status"]) for row in result["resources"]] == [("1", None, "in_sync")]


def test_a_removal_that_was_stopped_before_the_rebuild(tmp_path: Path) -> None:
    """The file is gone already; what it had is known from the image."""
    host = FakeHost(str(tmp_path), looked(contents()._replace(modprobe={OURS: OUR_TEXT})))
    host.new = contents()
    result = run(host, state="absent", options=None, initramfs="rebuild")
    assert result["actions"] == [f"Rebuild {IMAGE}"]
    texts = {"before": "options ib_core x=1\n", "after": ""}
    assert result["diff"] == [{"before_header": IMAGE, "after_header": IMAGE, **texts}]
    assert result["initramfs_stale"] is True
    assert result["after"]["initramfs_stale"] is False


# live, initramfs, next command line, status in a second run
STATUS = [
    (None, None, "ro", "in_sync"),
    ({"x": "1"}, contents("options ib_core x=1\n", True), "ro", "in_sync"),
    ({"x": "2"}, None, "ro", "drift"),
    (None, contents("", True), "ro", "drift"),
    (None, contents(""), "ro", "unknown"),
    (None, None, None, "unknown"),
    (None, None, "ib_core.x=3", "drift"),
    (None, None, "ib_core.x=1", "in_sync"),
]


@pytest.mark.parametrize(("live", "image", "cmdline", "status"), STATUS)
def test_status(tmp_path: Path, live: dict[str, str] | None, image: Contents | None, cmdline: str, status: str) -> None:
    host = FakeHost(str(tmp_path), looked(image, cmdline), live)
    assert run(host)["resources"][0]["status"] == "drift"
    result = run(host)
    assert result["changed"] is False
    assert result["resources"][0]["status"] == status


def test_a_stale_initramfs_is_rebuilt_after_the_file_was_written(tmp_path: Path) -> None:
    host = FakeHost(str(tmp_path), looked(contents("", True)))
    checked = run(host, True, initramfs="rebuild")
    assert host.did == [f"preflight {IMAGE} 7.2"]
    assert checked["actions"] == [f"Write {OURS}", f"Rebuild {IMAGE}"]
    texts = {"before": "", "after": "options ib_core x=1\n"}
    assert checked["diff"][1] == {"before_header": IMAGE, "after_header": IMAGE, **texts}
    assert checked["initramfs_stale"] is False
    assert checked["after"] == {"next_boot": {"x": "1"}, "reload_required": False, "initramfs_stale": False}
    host.new = contents("options ib_core x=1\n", True)
    assert run(host, initramfs="rebuild") == checked
    assert host.did[2:] == [f"rebuild {IMAGE} 7.2"]
    # The fake host builds no image, so a run that only reports finds the old one.
    assert run(host)["initramfs_stale"] is True


# what the image has of modprobe.d, what the diff shows of it
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("options ib-core x=2 y=3\n", "options ib_core x=2\n"),
        ("options ib_core y=3\n", ""),
        ("\0", ""),
    ],
)
def test_the_value_that_a_rebuild_replaces_is_shown(tmp_path: Path, text: str, shown: str) -> None:
    host = FakeHost(str(tmp_path), looked(contents(text, True)))
    texts = {"before": shown, "after": "options ib_core x=1\n"}
    assert run(host, True, initramfs="rebuild")["diff"][1:] == [
        {"before_header": IMAGE, "after_header": IMAGE, **texts}
    ]


def test_an_initramfs_that_is_not_stale_is_left_alone(tmp_path: Path) -> None:
    for image in (None, contents("", False, ["other"]), contents("options ib_core x=1\n", True)):
        host = FakeHost(str(tmp_path), looked(image))
        assert f"Rebuild {IMAGE}" not in run(host, initramfs="rebuild")["actions"]
        assert host.did == []


def test_a_new_image_that_is_still_stale(tmp_path: Path) -> None:
    host = FakeHost(str(tmp_path), looked(contents("", True)))
    host.new = contents("options ib_core x=2\n", True)
    assert message_of(FabricError, run, host, initramfs="rebuild") == "it carries 2 instead of 1 for x of ib_core"
    host.new = contents("\0", True)
    message = message_of(FabricError, run, host, initramfs="rebuild")
    assert message == "it carries an unknown value instead of 1 for x of ib_core"


def test_nothing_is_written_where_the_initramfs_cannot_be_rebuilt(tmp_path: Path) -> None:
    host = FakeHost(str(tmp_path), looked(contents("", True)))
    host.full = True
    with pytest.raises(FabricError, match="no space"):
        run(host, initramfs="rebuild")
    assert not (tmp_path / OURS[1:]).exists()


BROKEN = "Reading /boot/initrd.img-7.2: Input/output error."
NO_KERNEL = "it is not known which kernel boots next."


# what is known of the next boot, what is not
@pytest.mark.parametrize(
    ("src", "unknown"),
    [
        (looked(None, has_initramfs=True, problems=[BROKEN]), BROKEN),
        (looked(None, has_initramfs=None, entry=None), NO_KERNEL),
        (looked(contents("", True), entry=BootEntry("grub", cmdline="ro", initrd=[IMAGE])), NO_KERNEL),
    ],
)
def test_nothing_is_written_where_it_is_not_known_what_to_rebuild(tmp_path: Path, src: Sources, unknown: str) -> None:
    host = FakeHost(str(tmp_path), src)
    assert message_of(FabricError, run, host, initramfs="rebuild") == (
        f"initramfs=rebuild: it is not known what to rebuild: {unknown} Nothing has been changed. Set initramfs "
        "to report, and rebuild it with the distribution's tools."
    )
    assert host.did == []
    assert not (tmp_path / OURS[1:]).exists()


def test_a_failure_halfway_tells_what_was_done(tmp_path: Path) -> None:
    host = FakeHost(str(tmp_path), looked(contents("", True)))
    done: list[str] = []
    with pytest.raises(FabricError) as caught:
        module_params.manage(module_params.check(params(root=str(tmp_path), initramfs="rebuild")), False, host, done)
    assert str(caught.value) == "it carries an unknown value instead of 1 for x of ib_core"
    assert module_params.failure(caught.value, done) == {"changed": True, "actions": [f"Write {OURS}"]}


def test_a_refusal_names_the_conflicts(tmp_path: Path) -> None:
    line = {"path": "a", "line": 1, "text": "b", "wins": True}
    result = module_params.failure(ConflictError("no", [{**line, "name": "x"}]), [])
    assert result == {"changed": False, "actions": [], "conflicts": [line]}


def test_an_install_command_makes_the_prediction_unknown(tmp_path: Path) -> None:
    write_tree(tmp_path, {FOREIGN: "install ib_core /bin/true\n"})
    result = run(FakeHost(str(tmp_path), looked()))
    sentence = "/etc/modprobe.d/a.conf:1 runs a command instead of loading ib_core: install ib_core /bin/true"
    assert result["parameters"]["x"]["next_boot_reason"] == sentence
    assert result["after"]["next_boot"] == {"x": None}
    assert result["warnings"] == [sentence + "; whether it passes parameters on is not known"]


def test_live_values_are_read_from_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_params, "SYS_MODULE", str(tmp_path))
    write_tree(tmp_path, {"ib_core/parameters/x": "N\n"})
    assert module_params.Host("/").live("ib_core", "x") == "N"
    assert module_params.Host("/").live("ib_core", "y") is None
    assert module_params.Host("/").loaded("ib_core")
    assert not module_params.Host("/").loaded("other")
    assert module_params.Host(str(tmp_path)).live("ib_core", "x") is None
    assert not module_params.Host(str(tmp_path)).loaded("ib_core")
