# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where packages come from: what this machine's own apt uses, turned to the lab's release."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import typing as t

from .progress import LabError

# QEMU's user network shows the host's loopback under this address to the guest.
HOST_SEEN_FROM_GUEST = "10.0.2.2"
LOOPBACK = re.compile(r"(?<=//)(127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)")
# Options that tell how to reach an archive, none that names a file or a program of this machine.
OPTIONS = re.compile(
    r"Acquire::(Check-Valid-Until|Check-Date|Retries|(http|https)::(Proxy(::[^:]+)?|Timeout|Pipeline-Depth|User-Agent"
    r"|No-Cache|Verify-Peer|Verify-Host))\Z",
    re.IGNORECASE,
)


class Entry(t.NamedTuple):
    uri: str
    suite: str
    components: tuple[str, ...]


class Sources(t.NamedTuple):
    archive: str
    security: str
    options: dict[str, str]

    def for_guest(self) -> Sources:
        """The same, as a guest with user networking reaches it."""

        def reachable(text: str) -> str:
            return LOOPBACK.sub(HOST_SEEN_FROM_GUEST, text)

        return Sources(
            reachable(self.archive),
            reachable(self.security),
            {name: reachable(value) for name, value in self.options.items()},
        )


def parse_list(text: str) -> list[Entry]:
    """One-line format, sources.list(5)."""
    entries = []
    for line in text.splitlines():
        words = re.sub(r"\[[^\]]*\]", " ", line.partition("#")[0], count=1).split()
        if len(words) >= 4 and words[0] == "deb":
            entries.append(Entry(words[1], words[2], tuple(words[3:])))
    return entries


def parse_deb822(text: str) -> list[Entry]:
    """Stanzas of deb822 format, sources.list(5)."""
    entries = []
    for stanza in re.split(r"\n[ \t]*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t"):
                if name:
                    fields[name] += " " + line.strip()
                continue
            name, colon, value = line.partition(":")
            name = name.strip().lower() if colon else ""
            if name:
                fields[name] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        components = tuple(fields.get("components", "").split())
        entries += [
            Entry(uri, suite, components)
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]
    return entries


def read_entries(etc: pathlib.Path) -> list[Entry]:
    entries = []
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if path.suffix not in (".list", ".sources"):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        entries += parse_deb822(text) if path.suffix == ".sources" else parse_list(text)
    return entries


def parse_options(dump: str) -> dict[str, str]:
    """The options of `apt-config dump` that a guest needs as well."""
    options = {}
    for line in dump.splitlines():
        match = re.fullmatch(r'(\S+) "(.*)";', line)
        if match and OPTIONS.match(match[1]) and match[2]:
            options[match[1]] = match[2]
    return options


def addresses(entries: t.Iterable[Entry], codename: str) -> tuple[str, str]:
    """The archive and the security archive of a Debian release, each empty if no entry names it."""
    archive = security = ""
    for entry in entries:
        if "main" not in entry.components or not re.match(r"https?://", entry.uri):
            continue
        if entry.suite in (codename, "stable"):
            archive = archive or entry.uri.rstrip("/")
        elif entry.suite in (f"{codename}-security", "stable-security"):
            security = security or entry.uri.rstrip("/")
    return archive, security


def of_mmdebstrap(suite: str) -> list[Entry]:
    """What mmdebstrap itself writes for a release; it ends after that, and needs no network."""
    with tempfile.TemporaryDirectory(prefix="rdmaops-lab-") as directory:
        argv = ["mmdebstrap", "--quiet", "--mode=chrootless", "--variant=custom", "--format=null"]
        argv += ["--skip=check/signed-by,update,cleanup", f"--setup-hook=copy-out /etc/apt/sources.list {directory}"]
        try:
            done = subprocess.run(
                [*argv, suite], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
            )
        except OSError as error:
            raise LabError(f"mmdebstrap, which knows Debian's archive, cannot be run: {error}") from None
        if done.returncode:
            raise LabError(f"mmdebstrap does not say where {suite} comes from: {done.stderr.strip()}")
        return parse_list(pathlib.Path(directory, "sources.list").read_text())


def of_this_machine(
    config: t.Mapping[str, t.Any],
    root: pathlib.Path = pathlib.Path("/"),
    default: t.Callable[[str], t.Iterable[Entry]] = of_mmdebstrap,
) -> Sources:
    """The addresses of this machine's own apt sources; `default` is asked for those that they do not name."""
    release: dict[str, str] = {}
    try:
        for line in (root / "etc/os-release").read_text().splitlines():
            name, _, value = line.partition("=")
            release[name] = value.strip("\"'")
    except OSError:
        pass
    options = {}
    if shutil.which("apt-config"):
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, timeout=60, check=False)
        options = parse_options(dump.stdout)
    for scheme in ("http", "https"):
        proxy = os.environ.get(f"{scheme}_proxy")
        if proxy:
            options.setdefault(f"Acquire::{scheme}::Proxy", proxy)
    entries = read_entries(root / "etc/apt") if release.get("ID") == "debian" else []
    archive, security = addresses(entries, release.get("VERSION_CODENAME", ""))
    if not (archive and security):
        suite = config["debian"]["suite"]
        default_archive, default_security = addresses(default(suite), suite)
        archive, security = archive or default_archive, security or default_security
    if not (archive and security):
        raise LabError(
            f"neither this machine's apt sources nor mmdebstrap name an archive and a security archive for {suite}: "
            "install a newer mmdebstrap"
        )
    return Sources(archive, security, options)


def directory(path: str) -> str:
    """A directory of packages with their list, in one-line format."""
    return f"deb [trusted=yes] file:{path} ./"


def suite_line(config: t.Mapping[str, t.Any], archive: str, suite: str) -> str:
    """A suite of an archive, in one-line format."""
    debian = config["debian"]
    return f"deb [signed-by={debian['keyring']}] {archive} {suite} {' '.join(debian['components'])}\n"


def one_line(config: t.Mapping[str, t.Any], sources: Sources) -> str:
    suite = config["debian"]["suite"]
    lines = [suite_line(config, sources.archive, name) for name in (suite, f"{suite}-updates")]
    lines.append(suite_line(config, sources.security, f"{suite}-security"))
    if config["kernel"]["suite"] != suite:
        lines.append(suite_line(config, sources.archive, config["kernel"]["suite"]))
    return "".join(lines)


def deb822(config: t.Mapping[str, t.Any], sources: Sources) -> str:
    debian = config["debian"]
    suite = debian["suite"]
    suites = [suite, f"{suite}-updates"]
    if config["kernel"]["suite"] not in suites:
        suites.append(config["kernel"]["suite"])
    stanzas = [(sources.archive, " ".join(suites)), (sources.security, f"{suite}-security")]
    return "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {names}\nComponents: {' '.join(debian['components'])}\n"
        f"Signed-By: {debian['keyring']}\n"
        for uri, names in stanzas
    )


def apt_conf(options: t.Mapping[str, str]) -> str:
    return "".join(f'{name} "{value}";\n' for name, value in sorted(options.items()))
