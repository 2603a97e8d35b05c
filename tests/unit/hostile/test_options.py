# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each text in the options of each module is something hostile: the module ends with an answer, in check mode."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubernetes import library as kubernetes_library
from ansible_collections.rdmaops.gpu_fabric.tests.support import COLLECTION, faults
from ansible_collections.rdmaops.gpu_fabric.tests.support.module import module_arguments

LIMIT_S = 60
# A connection that is refused.
NOBODY = {"kubeconfig": None, "host": "http://127.0.0.1:1", "timeout": 2}
# Those without main() are actions, which hand over to others.
MODULES = sorted(
    path.stem
    for path in (COLLECTION / "plugins/modules").glob("*.py")
    if "\ndef main()" in path.read_text() and "\noptions:\n" in path.read_text()
)
# Half a surrogate pair is not among them: AnsibleModule itself fails when it logs one.
TEXTS = (
    "a\0b", "a\nb", "\n", "", "-x", "--", 'a"b', "a'b", "a;b", "a\\", "a/../../b", "{{ x }}", "%s", "\u202ea",
    "\U0001f9e8", "A" * 65536, "9" * 5000, "/dev/zero/x", "/\0", "::", "1e999", "<b>",
)  # fmt: skip
QUICK = ("a\0b", "a\nb", "A" * 65536)

Json = dict[str, t.Any]


def module(name: str) -> t.Any:
    return importlib.import_module(f"ansible_collections.rdmaops.gpu_fabric.plugins.modules.{name}")


def examples(name: str, known: t.Container[str]) -> list[Json]:
    """Return the options of the module's documented examples, those of templates left out."""
    cases = []
    for task in yaml.safe_load(module(name).EXAMPLES):
        options = task.get(f"rdmaops.gpu_fabric.{name}")
        if options is not None:
            options = {key: value for key, value in options.items() if "{{" not in str(value)}
            cases.append({**options, **{key: value for key, value in NOBODY.items() if key in known}})
    return cases


def places(node: t.Any, at: tuple[t.Any, ...] = ()) -> t.Iterator[tuple[t.Any, ...]]:
    """Return the way to each text in some options."""
    if isinstance(node, str):
        yield at
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(value, (*at, key))


def replaced(node: t.Any, at: tuple[t.Any, ...], text: str) -> t.Any:
    if not at:
        return text
    copied = dict(node) if isinstance(node, dict) else list(node)
    copied[at[0]] = replaced(node[at[0]], at[1:], text)
    return copied


def inputs(name: str, texts: t.Sequence[str]) -> t.Iterator[tuple[str, Json]]:
    """Return what is tried, and with which options: texts of the examples, and options that they do not have."""
    documented = yaml.safe_load(module(name).DOCUMENTATION)
    known = {**(documented.get("options") or {}), **(NOBODY if "kubernetes" in str(documented) else {})}
    cases = examples(name, known) or [{}]
    for number, options in enumerate(cases):
        for at in places(options):
            for text in texts:
                yield f"{number} {'.'.join(map(str, at))}: {text[:20]!a}", replaced(options, at, text)
    for option, about in (documented.get("options") or {}).items():
        if about.get("type", "str") not in ("str", "path", "raw") or about.get("choices") or option in cases[0]:
            continue
        for text in texts:
            yield f"{option}: {text[:20]!a}", {**cases[0], option: text}


def ended(name: str, options: Json) -> tuple[int, str, str]:
    """Run a module in a process of its own and return its exit status, standard output and error."""
    out, err = (os.memfd_create(stream) for stream in ("out", "err"))
    child = os.fork()
    if not child:
        status = 70
        try:
            os.setsid()
            signal.alarm(LIMIT_S)
            for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
                os.dup2(source, target)
            # Not closed: they are flushed below, and end with this process.
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            with module_arguments({**options, "_ansible_check_mode": True}):
                module(name).main()
        except SystemExit as exc:
            status = int(exc.code or 0)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    output = []
    for stream in (out, err):
        with open(stream, "rb") as file:
            file.seek(0)
            output.append(file.read().decode("utf-8", "surrogateescape"))
    return code, output[0], output[1]


def answered(name: str, options: Json) -> None:
    code, out, err = ended(name, options)
    assert code in (0, 1), f"{code}: {err[-1500:]}"
    result = json.loads(out.strip().splitlines()[-1])
    assert "Traceback" not in out + err, (out + err)[-1500:]
    if code:
        assert result["failed"], result
        assert len(result["msg"]) > 10, result


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    """Imported here once, and not in each process."""
    kubernetes_library.parts()


@pytest.mark.parametrize("name", MODULES)
def test_hostile_options(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with faults.tried("hostile options", name) as tally:
        for label, options in inputs(name, TEXTS if request.config.getoption("--long") else QUICK):
            with tally.one(label):
                answered(name, options)
    assert list(tmp_path.iterdir()) in ([], [tmp_path / ".ansible"])
