# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package names, paths and commands of distributions, as data with their sources (data.yml), against roles and modules."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.default import default_entry
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._boot.entry import Machine
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._initramfs import rebuild
from ansible_collections.rdmaops.gpu_fabric.plugins.modules import host_info
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, need_tool, skip_or_fail
from ansible_collections.rdmaops.gpu_fabric.tests.support.role_values import values

DATA = yaml.safe_load((Path(__file__).parent / "data.yml").read_text(encoding="utf-8"))
SYSTEMS = DATA["systems"]
# The lists of roles by distribution; training_image calls the family of Red Hat by that name.
LISTS = {
    "gpu_node": "__gpu_node_own_packages",
    "kubernetes": "__kubernetes_base_packages",
    "rdma_exporter": "__rdma_exporter_web_packages",
    "training_image": "__training_image_packages",
}
# What needs all of a role's packages.
OPTIONS = {"gpu_node": {"gpu_node_return_stranded_ok": True}}


def wanted(role: str) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = values(COLLECTION / "roles" / role).value(LISTS[role], **OPTIONS.get(role, {}))
    return {{"redhat": "rhel"}.get(name, name): packages for name, packages in lists.items()}


def chosen(role: str, system: str) -> list[str]:
    """Return what a role would install there, by the way in which the module chooses."""
    release = "".join(f'{name}="{value}"\n' for name, value in SYSTEMS[system]["os_release"].items())
    lists = wanted(role)
    key = host_info.choose(lists, host_info.parse_os_release(release))
    assert key, f"role {role} has no packages for {system}"
    return lists[key]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("role", LISTS)
def test_a_system_has_what_a_role_installs(role: str, system: str) -> None:
    family = SYSTEMS[system]["family"]
    known = {*DATA["packages"][family], *DATA["elsewhere"].get(family, {})}
    assert set(chosen(role, system)) - known == set()


@pytest.mark.parametrize(
    ("wish", "consent"), [({}, False), ({"gpu_node_return_stranded_ok": True}, True), ({"gpu_node_rails": [{}]}, True)]
)
def test_the_library_that_changes_network_devices_comes_when_it_is_needed(
    wish: dict[str, t.Any], consent: bool
) -> None:
    site = {**wish, "gpu_node_packages": {"rhel": ["perftest"]}}
    lists = values(COLLECTION / "roles/gpu_node").task("present.yml", "Look at the host", "packages", **site)
    assert ("python3-pyroute2" in lists["debian"]) == consent
    assert lists["rhel"] == ["perftest"]


def test_no_name_is_there_for_nothing() -> None:
    used: dict[str, set[str]] = {}
    for system, about in SYSTEMS.items():
        used.setdefault(about["family"], set()).update(name for role in LISTS for name in chosen(role, system))
    assert used == {family: {*names, *DATA["elsewhere"].get(family, {})} for family, names in DATA["packages"].items()}


def test_every_role_with_packages_is_looked_at() -> None:
    roles = {
        path.parents[1].name
        for path in COLLECTION.glob("roles/*/vars/main.yml")
        if "  debian:" in path.read_text(encoding="utf-8")
    }
    assert roles == set(LISTS)


def sources(value: t.Any) -> list[str]:
    if isinstance(value, dict):
        return [source for item in value.values() for source in sources(item)]
    return [value] if isinstance(value, str) and value.startswith("http") else []


def test_everything_has_a_source() -> None:
    assert all(about["packages_at"].startswith("https://") for about in SYSTEMS.values())
    assert set(DATA["boot"]) == set(SYSTEMS)
    for about in DATA["boot"].values():
        assert len(sources(about)) == (3 if "other_command" in about else 2), about


def test_the_page_names_these_systems_and_no_others() -> None:
    page = (COLLECTION / "docs/support.md").read_text(encoding="utf-8").partition("\n## Systems\n")[2]
    named = {
        f"{name.lower()}-{version}"
        for name, versions in re.findall(
            r"(?m)^\| (Debian|Ubuntu|RHEL) ([\d., ]+?)(?: and compatible systems)? \|", page
        )
        for version in versions.split(", ")
    }
    # AlmaLinux is one of the compatible systems.
    assert named == {name for name in SYSTEMS if not name.startswith("almalinux-")}


def test_debian_itself_knows_the_names() -> None:
    """Or Ubuntu, where this machine's apt has the lists of that."""
    tool = need_tool("apt-cache")
    names = DATA["packages"]["debian"]
    done = subprocess.run([tool, "showpkg", *names], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    if "Package: " not in done.stdout:
        skip_or_fail("apt has no lists of packages here (apt-get update)")
    # An unknown name is left out, with a word on stderr.
    assert [name for name in names if f"Package: {name}\n" not in done.stdout] == [], done.stderr


LINUX = "  linux /vmlinuz-6.1.0-x86_64 root=/dev/vda1 ro quiet{}\n  initrd /initrd.img-6.1.0-x86_64\n"
MENU = "menuentry 'Linux' --id one {{\n" + LINUX + "}}\n"


@pytest.mark.parametrize("efi", [False, True], ids=["bios", "efi"])
@pytest.mark.parametrize("system", DATA["boot"])
def test_the_tool_and_the_boot_configuration_are_found_where_they_are(system: str, efi: bool, tmp_path: Path) -> None:
    about = DATA["boot"][system]

    def write(path: str, text: str, mode: int = 0o644) -> None:
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    write(about["command"], "#!/bin/sh\n", 0o755)
    assert rebuild.tools(str(tmp_path)) == [about["tool"]]
    if "other_command" in about:
        write(about["other_command"], "#!/bin/sh\n", 0o755)
        assert sorted(rebuild.tools(str(tmp_path))) == sorted([about["tool"], about["other_tool"]])
    write("/etc/os-release", "".join(f'{k}="{v}"\n' for k, v in SYSTEMS[system]["os_release"].items()))
    write("/boot/vmlinuz-6.1.0-x86_64", "kernel")
    write("/boot/initrd.img-6.1.0-x86_64", "image")
    where = about["grub"]
    write(where, MENU.format(" of=bios"))
    if efi and "grub_efi" in about:
        where = about["grub_efi"]
        write(where, MENU.format(" of=efi"))
    if efi and "grub_stub" in about:
        stub = "search --no-floppy --fs-uuid --set=dev 1-2\nset prefix=($dev)/boot/grub2\nexport $prefix\nconfigfile $prefix/grub.cfg\n"
        write(about["grub_stub"], stub)
    entry = default_entry(str(tmp_path), Machine(efi=efi))
    assert entry.source == where
    assert "quiet" in entry.cmdline
    assert ("of=efi" in entry.cmdline) == (where != about["grub"])
