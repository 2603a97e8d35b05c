# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a node: their environment and time limit, and what is shown of their output."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._kubeadm.run import error_lines, runner
from ansible_collections.rdmaops.gpu_fabric.tests.support.waiting import has_ended, limits_count_from, wait_for

TOKEN = "abcdef.0123456789abcdef"
KEY = "0f" * 32


def test_what_failed_in_preflight_is_told() -> None:
    err = "[WARNING Swap]: x\n\t[ERROR Port-10250]: Port 10250 is in use\n[preflight] If you know what you are doing\n"
    assert error_lines("", err) == "[ERROR Port-10250]: Port 10250 is in use"


def test_no_secret_is_told() -> None:
    text = f"kubeadm join --token {TOKEN} --certificate-key {KEY} failed"
    assert error_lines(text, "", [KEY]) == "kubeadm join --token (hidden) --certificate-key (hidden) failed"


def program(place: Path, text: str) -> None:
    place.mkdir(exist_ok=True)
    (place / "kubeadm").write_text("#!/bin/sh\n" + text)
    (place / "kubeadm").chmod(0o755)


def test_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org")
    monkeypatch.setenv("KUBECONFIG", "/somebody/elses")
    program(tmp_path / "bin", 'echo "$1 $HTTPS_PROXY $KUBECONFIG $LC_ALL"; echo bad >&2; exit 3')
    run = runner([str(tmp_path / "bin")], 20)
    assert run(["kubeadm", "x"]) == (3, "x http://proxy.example.org  C\n", "bad\n")
    assert run(["no-such-program-here"]) is None


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", f"sleep 60 & echo $! >{tmp_path}/child; echo began; touch {tmp_path}/began; wait")
    limits_count_from(tmp_path / "began", monkeypatch)
    begun = time.monotonic()
    answer = runner([str(tmp_path / "bin")], 1)(["kubeadm"])
    assert answer is not None
    assert (answer[0], answer[1]) == (124, "began\n")
    assert "not done after 1 s" in answer[2]
    assert time.monotonic() - begun < 15
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: has_ended(child))
