# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the files of an initramfs make it do with kernel modules."""

from __future__ import annotations

import re
import typing as t

from .contents import Contents, closure
from .cpio import DEPENDENCIES, Image

# modprobe.d(5), kmod 30 and later; modules-load.d(5) has the same directories without the last.
_LOAD_D = ("etc", "run", "usr/local/lib", "usr/lib", "lib")


def resolve(links: t.Mapping[str, str], name: str) -> str | None:
    """Return the path that a path leads to through the image's symbolic links; None for a loop."""
    todo = [part for part in name.split("/") if part]
    done: list[str] = []
    for _step in range(4096):
        if not todo:
            return "/".join(done)
        part = todo.pop(0)
        if part == "..":
            done = done[:-1]
        elif part != ".":
            here = "/".join([*done, part])
            target = links.get(here)
            if target is None:
                done.append(part)
            else:
                if target.startswith("/"):
                    done = []
                todo = [step for step in target.split("/") if step] + todo
                if len(todo) > 4096:
                    return None
    return None


def requirements(dep: str, softdep: str) -> dict[str, list[str]]:
    """Parse modules.dep(5) and softdep lines (modules.softdep, modprobe.d) into direct dependencies."""
    requires: dict[str, list[str]] = {}
    for line in dep.splitlines():
        path, colon, needs = line.partition(":")
        if colon:
            names = [_module_name(need) for need in needs.split()]
            if names:
                requires.setdefault(_module_name(path), []).extend(names)
    for line in softdep.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] == "softdep":
            # "pre:" comes before the module, "post:" after it: both are loaded.
            names = [word.replace("-", "_") for word in words[2:] if word not in ("pre:", "post:")]
            requires.setdefault(words[1].replace("-", "_"), []).extend(names)
    return requires


def _module_name(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".ko")[0].replace("-", "_")


def load_lines(text: str, marks: str = "#") -> list[tuple[str, str]]:
    """Return (module, options) of each line of a list of modules to load."""
    modules = []
    for line in text.splitlines():
        words = line.split(None, 1)
        if words and words[0][0] not in marks:
            modules.append((words[0].replace("-", "_"), words[1].strip() if len(words) > 1 else ""))
    return modules


def kind_of(names: t.Collection[str]) -> str:
    """Return the tool that built an image, from the names in it."""
    if "conf/initramfs.conf" in names or "conf/arch.conf" in names:
        return "initramfs-tools"
    if any(name in names for name in ("usr/lib/dracut", "lib/dracut", "usr/lib/dracut-lib.sh", "lib/dracut-lib.sh")):
        return "dracut"
    if "init_functions" in names or ("hooks" in names and "config" in names):
        return "mkinitcpio"
    return "unknown"


class _Tree:
    """The files of an image, by paths that may lead through its links."""

    def __init__(self, image: Image) -> None:
        self.links = image.links
        self.texts = image.texts()

    def read(self, path: str) -> str:
        """Return the text of a file; a link to /dev/null, or to nothing in the image, is an empty file."""
        target = resolve(self.links, path)
        return "" if target is None else self.texts.get(target, "")

    def configurations(self, directory: str) -> list[str]:
        """Return the files of a directory that end in .conf."""
        target = resolve(self.links, directory)
        paths = [path for path in (*self.texts, *self.links) if target is not None and path.rsplit("/", 1)[0] == target]
        return sorted({directory + "/" + path.rsplit("/", 1)[-1] for path in paths if path.endswith(".conf")})

    def dependencies(self, kind: str) -> str:
        """Return the lines of modules.dep or modules.softdep."""
        lists = [(path, DEPENDENCIES.match(path)) for path in sorted(self.texts)]
        return "".join(self.texts[path] for path, match in lists if match and match.group(1) == kind)


def _modprobe_d(tree: _Tree) -> dict[str, str]:
    modprobe: dict[str, str] = {}
    real_directories: set[str] = set()
    for base in _LOAD_D:
        directory = resolve(tree.links, base + "/modprobe.d")
        if directory is None or directory in real_directories:
            continue
        real_directories.add(directory)
        for path in tree.configurations(base + "/modprobe.d"):
            # An empty file is kept: it masks others of its name.
            modprobe["/" + path] = tree.read(path)
    return modprobe


def _listed(kind: str, tree: _Tree) -> list[tuple[str, str]]:
    """Return the modules that the image's own lists load, with their options."""
    if kind == "initramfs-tools":
        return load_lines(tree.read("conf/modules"))
    names: list[str] = []
    if kind == "mkinitcpio":
        for value in re.findall(r"^(?:MODULES|earlymodules)=[\"'(]?([^\"')\n]*)", tree.read("config"), re.MULTILINE):
            names += re.split(r"[\s,]+", value)
    if kind == "dracut":
        paths = [*tree.configurations("etc/cmdline.d"), "etc/cmdline"]
        for word in " ".join(tree.read(path) for path in paths).split():
            key, _equals, value = word.partition("=")
            if key == "rd.driver.pre":
                names += value.split(",")
    return [(name.replace("-", "_"), "") for name in names if name]


def _listed_for_systemd(tree: _Tree) -> list[tuple[str, str]]:
    """Return the modules that systemd-modules-load(8) loads."""
    files: dict[str, str] = {}
    for base in _LOAD_D:
        for path in tree.configurations(base + "/modules-load.d"):
            files.setdefault(path.rsplit("/", 1)[-1], tree.read(path))
    # It takes no options: the rest of a line is part of the name.
    return [(module, "") for text in files.values() for module, rest in load_lines(text, "#;") if not rest]


def evaluate(images: t.Sequence[str], image: Image) -> Contents:
    """Return what the images of these names, loaded one after the other, do, from what was collected."""
    tree = _Tree(image)
    modprobe = _modprobe_d(tree)
    requires = requirements(tree.dependencies("dep"), "\n".join([tree.dependencies("softdep"), *modprobe.values()]))
    kind = kind_of(image.names)
    loads = _listed(kind, tree)
    if any(path.rsplit("/", 1)[-1] == "systemd-modules-load" for path in image.names):
        loads += _listed_for_systemd(tree)
    needed = closure(requires, [module for module, _options in loads])
    with_modules = {name for names in image.versions.values() for name in names}
    return Contents(
        image=next((name for name in reversed(images) if name in with_modules), images[-1]),
        kind=kind,
        modules=sorted(image.modules),
        forced=[module for module in needed if module in image.modules],
        modprobe=modprobe,
        arguments={module: options for module, options in loads if options},
        requires={module: sorted(set(needs)) for module, needs in sorted(requires.items()) if module in image.modules},
        versions={version: list(names) for version, names in sorted(image.versions.items())},
        configurations={name: sorted(paths) for name, paths in image.configurations.items()},
    )


__all__ = ("evaluate", "kind_of", "load_lines", "requirements", "resolve")
