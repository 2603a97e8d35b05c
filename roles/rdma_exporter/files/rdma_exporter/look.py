# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that reads the devices, with the privileges this needs, and hands over the metrics."""

from __future__ import annotations

import argparse
import gc
import os
import platform
import resource
import socket
import time
import typing as t

from . import command_line, exposition, handover
from .collector import Collector, Problem, Settings
from .command_line import log, seconds
from .metrics import Render

MOST_FILES = 16384


def build_parser() -> argparse.ArgumentParser:
    parser = command_line.build_parser("look", "Look at the RDMA devices of a node, and hand over what was seen.")
    defaults = Settings()
    parser.add_argument("--path.sysfs", dest="sysfs", default=defaults.sysfs, metavar="DIRECTORY")
    parser.add_argument("--path.procfs", dest="procfs", default=defaults.procfs, metavar="DIRECTORY")
    parser.add_argument("--no-collector.netlink", dest="netlink", action="store_false", help="read sysfs alone")
    parser.add_argument("--no-collector.netns", dest="netns", action="store_false", help="look into no other namespace")
    parser.add_argument(
        "--collector.netns.timeout", dest="limit", type=seconds, default=defaults.limit, metavar="SECONDS",
        help="for the look into one network namespace (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--expected-device", dest="expected", action="append", default=[], metavar="DEVICE",
        help="name, node GUID, or PCI address and, of a sub-function, '/' and its auxiliary device; can be repeated",
    )  # fmt: skip
    return parser


class Exporter:
    """Scrapes the devices and renders the metrics."""

    def __init__(self, settings: Settings, revision: str) -> None:
        self.collector = Collector(settings)
        self._build = exposition.labels({"revision": revision, "pythonversion": platform.python_version()})
        self._logged: set[str] = set()

    def scrape(self) -> bytes:
        snapshot = self.collector.collect()
        render = Render()
        render.snapshot(snapshot)
        render.expected(snapshot.expected)
        render.families.gauge(
            "rdma_exporter_build_info", "Which exporter this is. The value is always 1", 1, self._build
        )
        process(render.families)
        self._log([*snapshot.problems, *render.clashes])
        return render.families.render()

    def _log(self, problems: t.Sequence[Problem]) -> None:
        """Log new problems: the labels have only one word for each."""
        texts = {problem.text for problem in problems}
        for text in sorted(texts - self._logged):
            log(text)
        self._logged = texts


def process(families: exposition.Families) -> None:
    """Add this process's resource usage under the usual names; the process that answers HTTP needs little."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[1])
    families.counter(
        "process_cpu_seconds_total", "User and system processor time", round(usage.ru_utime + usage.ru_stime, 6)
    )
    families.gauge("process_resident_memory_bytes", "Resident memory", pages * resource.getpagesize())
    families.gauge("process_start_time_seconds", "When the process started, since 1970", round(_STARTED, 2))


_STARTED = time.time()


def raise_file_limit() -> int:
    """Raise the soft limit, 1024 for a service (systemd.exec(5), LimitNOFILE); return how many files may stay open."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    # The rest is for waiting clients and what a look opens.
    return max(0, limit - 256)


def ready() -> None:
    """Notify systemd that this process is ready (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            # An abstract address begins with a zero byte (unix(7)).
            notify.sendto(b"READY=1", "\0" + address[1:] if address[0] == "@" else address)


def main(argv: t.Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    settings = Settings(
        sysfs=options.sysfs,
        procfs=options.procfs,
        netlink=options.netlink,
        netns=options.netns,
        limit=options.limit,
        total=options.total,
        expected=tuple(options.expected),
        open_files=raise_file_limit(),
    )
    exporter = Exporter(settings, options.revision)
    try:
        listener = handover.listen(options.socket)
    except OSError as exc:
        log("Listening on %s: %s. Set another path with --look.socket" % (options.socket, exc.strerror or exc))
        return 1
    command_line.end_on_sigterm()
    # Existing objects stay: forked children need not copy them to find that out.
    gc.collect()
    gc.freeze()
    # A look creates thousands of short-lived objects without cycles; by default every 700th starts a collection.
    gc.set_threshold(50_000, 20, 20)
    log("listening on %s, revision %s" % (options.socket, options.revision))
    ready()
    try:
        with listener:
            while True:
                handover.hand_over(listener, exporter.scrape)
    except KeyboardInterrupt:
        return 0


__all__ = ("Exporter", "build_parser", "main")
