# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment that a pod makes for its program."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._errors import FabricError
from ansible_collections.rdmaops.gpu_fabric.plugins.module_utils._training_job import start

GID = {"index": 9, "gid": "::ffff:10.1.0.5", "type": "RoCE v2", "netdev": "net1", "ipv4": "10.1.0.5"}


def seen(state: str = "ACTIVE", name: str = "mlx5_0") -> dict[str, t.Any]:
    port = {"port": 1, "state": state, "link_layer": "Ethernet", "netdev": "net1", "gids": [GID]}
    return {"devices": [{"name": name, "protocol": "roce", "ports": [port]}], "unreadable": []}


def test_the_index_is_that_of_this_pod() -> None:
    result = start.nccl_variables({}, 0, True, seen)
    expected = {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_GID_INDEX": "9", "NCCL_DEBUG": "INFO"}
    assert result == expected
    sockets = {"socket_family": "ipv4", "socket_nthreads": 4, "nsocks_perthread": 2}
    variables = {"NCCL_SOCKET_FAMILY": "AF_INET", "NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "2"}
    assert start.nccl_variables(sockets, 0, True, seen) == {**expected, **variables}
    assert start.nccl_variables({"traffic_class": 106}, 0, True, seen)["NCCL_IB_TC"] == "106"


def test_a_device_that_comes_later_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([{"devices": [], "unreadable": []}, seen("DOWN"), seen()])
    assert start.nccl_variables({}, 60, True, lambda: next(looks), pause=0)["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert capsys.readouterr().err.count("waiting up to 60 s") == 1


def test_a_device_that_never_comes() -> None:
    with pytest.raises(FabricError, match="its state is DOWN, not ACTIVE"):
        start.nccl_variables({}, 0, True, lambda: seen("DOWN"))
    assert start.nccl_variables({}, 0, False, lambda: seen("DOWN")) == {}


def test_what_the_pod_has_stays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"NCCL_DEBUG": "TRACE", "HOME": "/root"}
    monkeypatch.setattr(start, "nccl_variables", lambda *_given: {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "=a:1"})
    result = start.prepare({"nccl": {}}, given)
    assert result == {"NCCL_DEBUG": "TRACE", "NCCL_IB_HCA": "=a:1", "HOME": "/root"}
    assert "NCCL_DEBUG=TRACE (as the pod has it)" in capsys.readouterr().err
