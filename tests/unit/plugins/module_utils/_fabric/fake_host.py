# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host over programs whose answers are given by the test."""

from __future__ import annotations

import typing as t

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._fabric.host import Host, Server


class FakeServer:
    def __init__(self, ended: t.Any, words: str) -> None:
        self.ended = ended
        self.words = words

    def output(self) -> str:
        return self.words

    def status(self) -> int | None:
        if isinstance(self.ended, Exception):
            raise self.ended
        return t.cast("int | None", self.ended)

    def stop(self) -> None:
        pass


class FakeHost(Host):
    """Each run of a program takes a second and gives the next answer: exit status, output, document."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.missing: set[str] = set()
        self.clock = 0.0
        self.ran: list[list[str]] = []
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.held: dict[str, t.Any] = {}
        self.ended: dict[str, t.Any] = {}
        self.ports: dict[int, float] = {}
        self.document = ""
        self.started = 0
        # How many servers had been started when those of earlier rounds were ended.
        self.ended_after: list[int] = []

    def which(self, tool: str) -> str | None:
        return None if tool in self.missing else "/usr/bin/" + tool

    def run(self, argv: t.Sequence[str], limit: float) -> tuple[int | None, str]:
        self.ran.append(list(argv))
        self.clock += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, text, *document = answer
        self.document = document[0] if document else ""
        if status is None:
            self.clock += limit
        return status, text

    def run_for_document(
        self, argv: t.Callable[[str], t.Sequence[str]], name: str, limit: float
    ) -> tuple[int | None, str, str]:
        self.document = ""
        status, text = self.run(argv("/run/rdmaops/fabric/" + name), limit)
        return status, text, self.document

    def start(self, argv: t.Sequence[str], limit: float, log: str) -> Server:
        self.ran.append([*argv, "for %d s" % limit])
        self.started += 1
        return FakeServer(self.ended.get(argv[0]), self.files.get(log, ""))

    def end_servers(self) -> None:
        self.ended_after.append(self.started)

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def real_paths(self, paths: t.Sequence[str]) -> list[str]:
        return [self.links.get(path, "") for path in paths]

    def listens(self, port: int) -> bool:
        return self.clock >= self.ports.get(port, 0)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def users(self, device: str) -> list[int | None]:
        found = self.held.get(device, [])
        if isinstance(found, Exception):
            raise found
        return t.cast("list[int | None]", found)

    def command(self, pid: int) -> str:
        return "python3"

    def way(self) -> tuple[str | None, str | None]:
        return "eth0", "192.0.2.7"
