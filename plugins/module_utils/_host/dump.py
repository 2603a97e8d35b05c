# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""A host as this collection sees it, in one document from which its decisions can be made again elsewhere.

It has what the edges of the modules answer, as far as a decision reads it, with pseudonyms for what identifies hardware
and people. docs/dump.md lists what that is.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import typing as t

from .._errors import FabricError
from .._files import HEADER, in_root, read_text
from .._initramfs.contents import closure
from .._kmod import config
from .._module_params.host import RDMA_DROP_IN, RDMA_OPTION
from .._netns import walk
from .._rdma import recording
from .._rdma_devices import info
from .._rdma_mode import model
from . import network
from .pseudonyms import Pseudonyms

if t.TYPE_CHECKING:  # pragma: no cover
    from .._boot.entry import BootEntry
    from .._decision import Decision
    from .._initramfs.contents import Contents
    from .._module_params.prediction import Sources
    from .._netns.survey import Namespace

Json = t.Any

# Raised when older documents cannot be read any more.
SCHEMA = 1
# The version of galaxy.yml, which is not on a managed node.
COLLECTION = "0.1.0"

MODULE = RDMA_OPTION[0]

# The words of a kernel command line that a decision reads: parameters of ib_core (kmod, and the kernel if it is built
# in), and modules that an initramfs loads (dracut.cmdline(7), systemd-modules-load(8)).
_WORD = re.compile(r'(?:[^ \t\n\v\f\r"]|"[^"]*(?:"|\Z))+')
_READ = re.compile(r'"?(?:ib[-_]core\.|(?:rd\.driver\.pre|rd\.modules_load|modules_load)=)|--\Z')

# Paths without a name that a user has chosen.
_OF_PROC = re.compile(r"/proc(?:/(?:\d+|self|task|ns|net|fd|stat|cgroup|mountinfo))*\Z")


class Host:
    """The edges: those of the modules, and the names of this machine."""

    def __init__(self) -> None:
        self.rdma = info.Host()
        self.mode = model.Host()

    def network_info(self) -> Json:
        """What network_info returns; NetworkError if it fails."""
        options = {"gather": ["interfaces", "cni"], "internal_ips": []}
        return network.gather({**options, "bin_dir": "/opt/cni/bin", "conf_dir": "/etc/cni/net.d"}, network.Host())

    def record(self) -> Json:
        return recording.record()

    def record_inside(self, spaces: t.Sequence[Namespace]) -> t.Mapping[int, Json]:
        return walk.look_into(spaces, recording.record)

    def names(self) -> list[str]:
        """The names of this machine."""
        name = os.uname().nodename
        return [name, name.split(".", 1)[0]]

    def system(self) -> Json:
        text = read_text(in_root(self.mode.root, "/etc/os-release")) or ""
        fields = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"(?:ID|VERSION_ID)=", line))
        uname = os.uname()
        return {
            "kernel": uname.release,
            "machine": uname.machine,
            "id": "".join(shlex.split(fields.get("ID", "linux"))),
            "version_id": "".join(shlex.split(fields.get("VERSION_ID", ""))),
        }


class _Numbered:
    """Pseudonyms for names that users have chosen, numbered in their order: "pod-1", "pod-2"."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}
        self.count: dict[str, int] = {}

    def name(self, kind: str, original: str | None) -> str | None:
        if original is None:
            return None
        if (kind, original) not in self.known:
            self.count[kind] = self.count.get(kind, 0) + 1
            self.known[kind, original] = "%s-%d" % (kind, self.count[kind])
        return self.known[kind, original]


def cmdline(text: str | None) -> str | None:
    """The words of a kernel command line that a decision reads. Others may be passwords (rd.iscsi.password)."""
    return None if text is None else " ".join(word for word in _WORD.findall(text) if _READ.match(word))


def modprobe(tree: config.Tree, texts: t.Mapping[str, str]) -> dict[str, str]:
    """The files with lines about the tree's module; their other lines are empty."""
    read = {(line.path, number) for line in tree.directives for _offset, number, _raw in line.marks}
    result = {}
    for path, text in texts.items():
        lines = [
            line if (path, number) in read or line == HEADER else "" for number, line in enumerate(text.split("\n"), 1)
        ]
        if any(lines) or path == RDMA_DROP_IN:
            result[path] = "\n".join(lines)
    return result


def _modprobe_d(root: str) -> Json:
    tree = config.read_tree(root, module=MODULE)
    texts = {path: read_text(in_root(root, path)) or "" for path in tree.files}
    return {"files": modprobe(tree, texts), "unreadable": [path for path, _error in tree.unreadable]}


def _problem(text: str) -> str:
    """A sentence about the boot entry without the entry's title, which is in quotes."""
    return re.sub("'[^']*'", "'...'", text)


def _entry(entry: BootEntry | None) -> Json:
    if entry is None:
        return None
    parts = [(path, line, cmdline(text)) for path, line, text in entry.parts]
    read = [part for part in parts if part[2]]
    problem = entry.problem and _problem(entry.problem)
    return dict(entry._asdict(), cmdline=cmdline(entry.cmdline), title=None, problem=problem, parts=read)


def _contents(contents: Contents | None) -> Json:
    """An initramfs, without the modules that have nothing to do with ours."""
    if contents is None:
        return None
    known = {*contents.modules, *contents.requires}
    needing = {name for name in known if MODULE in closure(contents.requires, [name])}
    tree = config.from_texts(contents.modprobe, MODULE)
    return dict(
        contents._asdict(),
        modules=sorted(needing & set(contents.modules)),
        forced=sorted(needing & set(contents.forced)),
        requires={name: sorted(needing & set(contents.requires.get(name, ()))) for name in sorted(needing)},
        arguments={name: text for name, text in contents.arguments.items() if name == MODULE},
        modprobe=modprobe(tree, contents.modprobe),
        unreadable=[path for path, _error in tree.unreadable],
    )


def _sources(src: Sources) -> Json:
    return dict(
        src._asdict(),
        entry=_entry(src.entry),
        running=cmdline(src.running),
        contents=_contents(src.contents),
        problems=[_problem(text) for text in src.problems],
    )


def _mode(host: model.Host) -> Json:
    live = error = None
    try:
        live = host.live()
    except FabricError as exc:
        error = str(exc)
    return {
        "live": live,
        "live_error": error,
        "available": host.available(),
        "sources": _sources(host.sources()),
        "modprobe_d": _modprobe_d(host.root),
    }


def _answer(answer: Json) -> Json:
    """An answer from inside a namespace. The text of an error may have a path, and only its kind counts."""
    if answer is None or "value" in answer or answer["error"] == walk.NOT_REACHED:
        return answer
    return {"errno": answer["errno"], "error": os.strerror(answer["errno"])}


def _namespace(space: Namespace, names: _Numbered, answer: Json) -> Json:
    """A namespace, with who keeps it: without commands and units, which no decision reads."""
    holders = [
        {
            "kind": holder.kind,
            # The name is that of `ip netns`, or one that a user has chosen.
            "path": "/run/netns/%s" % names.name("netns", os.path.basename(holder.path))
            if holder.kind == "mount"
            else holder.path,
            "pid": holder.pid,
            "pod": holder.pod and {"uid": holder.pod["uid"]},
            "foreign": holder.foreign,
        }
        for holder in space.holders
    ]
    return {
        "inode": space.inode,
        "name": names.name("netns", space.name),
        "holders": holders,
        "holders_total": space.holders_total,
        "answer": _answer(answer),
    }


def _namespaces(host: Host, mode: str | None) -> Json:
    survey = host.mode.other_namespaces()
    spaces = survey.namespaces
    # As rdma_info: in mode shared every namespace shows the devices that the host's shows.
    answers = host.record_inside(spaces) if mode == "exclusive" else {}
    names = _Numbered()
    pods = host.rdma.pods()
    uids = {holder.pod["uid"] for space in spaces for holder in space.holders if holder.pod}
    return {
        "own": host.rdma.own(),
        "initial": host.rdma.initial(),
        "others": [_namespace(space, names, answers.get(space.inode)) for space in spaces],
        "unreadable": [
            [path if _OF_PROC.match(path) else names.name("path", path), error] for path, error in survey.unreadable
        ],
        "pods": {
            uid: [names.name("namespace", pods[uid][0]), names.name("pod", pods[uid][1])]
            for uid in sorted(uids & set(pods))
        },
    }


def _network(host: Host) -> Json:
    """What network_info returns, without the devices of pods, and without the names of servers and directories."""
    try:
        seen = host.network_info()
    except network.NetworkError as exc:
        return {"interfaces": None, "cni": None, "error": str(exc)}
    interfaces = [
        dict(row, uses=[re.sub("^storage mount .*", "storage mount", use, flags=re.S) for use in row["uses"]])
        for row in seen["interfaces"]
        if row["kind"] != "veth"
    ]
    cni = {key: seen["cni"][key] for key in ("bin_dir", "plugins")}
    return {"interfaces": interfaces, "cni": cni, "error": None}


def look(host: Host) -> Json:
    """Return the document with the host's own identifiers."""
    if not host.mode.is_root():
        raise FabricError(
            "Recording this host needs root, to read its boot entry and to look into all network namespaces; set "
            "become: true"
        )
    loaded, mode = host.rdma.system()
    able = host.rdma.netns_capable_drivers()
    return {
        "schema": SCHEMA,
        "collection": COLLECTION,
        "system": host.system(),
        "rdma": {
            "loaded": loaded,
            "mode": mode,
            "netns_capable_drivers": None if able is None else sorted(able),
            "answer": host.record() if loaded else None,
        },
        "namespaces": _namespaces(host, mode),
        "mode": _mode(host.mode),
        "network": _network(host),
    }


def pseudonyms(document: Json, names: t.Iterable[str]) -> Pseudonyms:
    """Return those for a document; ``names`` are the machine's own."""
    rows = [
        document["rdma"]["answer"],
        *((row["answer"] or {}).get("value") for row in document["namespaces"]["others"]),
    ]
    versions = [device["device"]["firmware"] or "" for row in rows if row for device in row["devices"]]
    system = document["system"]
    secret = {name for name in names if len(name) > 2 and name not in ("localhost", system["id"])}
    return Pseudonyms(document, [system["kernel"], *versions], secret)


def record(host: Host) -> Json:
    """Return the document. Nothing is changed."""
    document = look(host)
    return pseudonyms(document, host.names()).apply(document)


def add_to(decision: Decision, path: str, document: Json) -> None:
    """Write the document, for root only, if the file does not have it already."""
    from .._files_write import atomic_write

    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    before = read_text(path)
    if before != text:
        decision.add("Write %s" % path, lambda: atomic_write(path, text, 0o600), (path, before or "", text))


__all__ = ("COLLECTION", "SCHEMA", "Host", "add_to", "cmdline", "look", "modprobe", "pseudonyms", "record")
