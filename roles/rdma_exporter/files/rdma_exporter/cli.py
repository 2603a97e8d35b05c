# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start: the command line, in the words of node_exporter where it has them."""

from __future__ import annotations

import argparse
import gc
import platform
import resource
import signal
import sys
import time
import typing as t

from . import exposition
from .collector import Collector, Problem, Settings
from .metrics import Render
from .server import ListenError, Server, log
from .web_config import WebConfigError, WebConfigFile

DEFAULT_ADDRESS = ":9879"
MOST_FILES = 16384


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="rdma_exporter", description="Prometheus exporter of RDMA counters.")
    defaults = Settings()
    made.add_argument("--web.listen-address", dest="address", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    made.add_argument(
        "--web.config.file", dest="web_config", metavar="FILE", help="TLS and users, see exporter-toolkit"
    )
    made.add_argument("--path.sysfs", dest="sysfs", default=defaults.sysfs, metavar="DIRECTORY")
    made.add_argument("--path.procfs", dest="procfs", default=defaults.procfs, metavar="DIRECTORY")
    made.add_argument("--no-collector.netlink", dest="netlink", action="store_false", help="read sysfs alone")
    made.add_argument("--no-collector.netns", dest="netns", action="store_false", help="look into no other namespace")
    made.add_argument(
        "--collector.netns.timeout", dest="limit", type=seconds, default=defaults.limit, metavar="SECONDS",
        help="for the look into one network namespace (default: %(default)s)",
    )  # fmt: skip
    made.add_argument(
        "--collector.timeout", dest="total", type=seconds, default=defaults.total, metavar="SECONDS",
        help="for a scrape; less than Prometheus' scrape_timeout (default: %(default)s)",
    )  # fmt: skip
    made.add_argument("--expected-device", dest="expected", action="append", default=[], metavar="NAME")
    made.add_argument("--revision", default="unknown", help="what this exporter says that it is")
    return made


def seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 3600:
        raise argparse.ArgumentTypeError("%s: seconds, above 0" % text)
    return value


class Exporter:
    """What a scrape does."""

    def __init__(self, settings: Settings, revision: str) -> None:
        self.collector = Collector(settings)
        self._expected = settings.expected
        self._build = exposition.labels({"revision": revision, "pythonversion": platform.python_version()})
        self._told: set[str] = set()

    def scrape(self) -> bytes:
        found = self.collector.collect()
        render = Render()
        render.snapshot(found)
        render.expected(self._expected)
        render.families.gauge(
            "rdma_exporter_build_info", "Which exporter this is. The value is always 1", 1, self._build
        )
        process(render.families)
        self._tell([*found.problems, *render.clashes])
        return render.families.render()

    def _tell(self, problems: t.Sequence[Problem]) -> None:
        """Say in the journal what is new: the labels have but a word for it."""
        texts = {one.text for one in problems}
        for text in sorted(texts - self._told):
            log(text)
        self._told = texts


def process(families: exposition.Families) -> None:
    """The exporter's own use of the machine, by the names that every exporter has."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm", encoding="ascii") as stream:
        pages = int(stream.read().split()[1])
    families.counter(
        "process_cpu_seconds_total", "User and system processor time", round(usage.ru_utime + usage.ru_stime, 6)
    )
    families.gauge("process_resident_memory_bytes", "Resident memory", pages * resource.getpagesize())
    families.gauge("process_start_time_seconds", "When the process started, since 1970", round(_STARTED, 2))


_STARTED = time.time()


def room() -> int:
    """How many files may stay open. The soft limit of a service is 1024 (systemd.exec(5), LimitNOFILE)."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    # Connections and what a look opens need theirs.
    return max(0, wanted - 256)


def main(argv: t.Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    settings = Settings(
        sysfs=options.sysfs,
        procfs=options.procfs,
        netlink=options.netlink,
        netns=options.netns,
        limit=options.limit,
        total=options.total,
        expected=tuple(options.expected),
        open_files=room(),
    )
    config = WebConfigFile(options.web_config)
    exporter = Exporter(settings, options.revision)
    try:
        config.current()
        server = Server(options.address, exporter.scrape, config, options.revision, settings.total)
    except (ListenError, WebConfigError) as exc:
        log(str(exc))
        return 1
    # SIGTERM is how systemd and the kubelet say goodbye.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    # What is there now stays: children that are forked need no copy of it to know that.
    gc.collect()
    gc.freeze()
    # A scrape makes thousands of short-lived objects in no cycle; by default they are looked through at every 700th.
    gc.set_threshold(50_000, 20, 20)
    log("listening on %s, revision %s" % (options.address, options.revision))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


__all__ = ("DEFAULT_ADDRESS", "Exporter", "main", "parser")
