# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checkpoints: written atomically by rank 0, and read by all ranks without executing what they contain.

Only rank 0 needs the file: it sends the bytes to the others, so no shared storage is needed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import typing as t

import torch
import torch.distributed as dist
from common import SCHEMA, WorkloadError, write_whole
from rendezvous import Group, raw_bytes


def refuse_existing(path: str | None, resume: bool) -> None:
    """Raises WorkloadError for a checkpoint that a run from the start would overwrite."""
    if path and not resume and os.path.exists(path):
        raise WorkloadError("%s exists: continue from it with --resume, or remove it" % path)


def save(path: str, state: dict[str, t.Any]) -> None:
    """Write a state: tensors as such, all else as JSON, since PyTorch 1.13's safe reader does not support fractions."""
    optimizer = state["optimizer"]
    plain = {name: value for name, value in state.items() if name not in ("model", "optimizer")}
    plain["groups"] = optimizer["param_groups"]
    content = {
        "schema": SCHEMA,
        "model": state["model"],
        "optimizer": optimizer["state"],
        "plain": json.dumps(plain, allow_nan=False),
    }
    content["digest"] = digest(content)
    write_whole(path, lambda stream: torch.save(content, stream))


def digest(content: dict[str, t.Any]) -> str:
    """Return the SHA-256 of a checkpoint's content: PyTorch does not verify the checksums in its archives."""
    checksum = hashlib.sha256(content["plain"].encode())
    tensors = list(content["model"].items())
    for number, values in content["optimizer"].items():
        tensors += [("%d %s" % (number, name), value) for name, value in values.items()]
    for name, value in tensors:
        checksum.update(("\0%s\0" % name).encode())
        checksum.update(raw_bytes(value) if isinstance(value, torch.Tensor) else repr(value).encode())
    return checksum.hexdigest()


def load(path: str, group: Group, settings: dict[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the state in rank 0's ``path``, None if there is none.

    Raises WorkloadError on every rank for a file that cannot be read or belongs to another run.
    """
    content = b""
    status: dict[str, t.Any] | None = None
    if group.ranks.rank == 0:
        try:
            with open(path, "rb") as stream:
                content = stream.read()
            status = {"size": len(content)}
        except FileNotFoundError:
            pass
        except OSError as exc:
            status = {"error": exc.strerror or str(exc)}
    status = group.gather(status)[0]
    if status is None:
        return None
    if "error" in status:
        raise WorkloadError("Reading the checkpoint %s: %s" % (path, status["error"]))
    state = parse(_broadcast(content, status["size"], group), path)
    refuse_other_run(state, settings, path)
    return state


def _broadcast(content: bytes, size: int, group: Group) -> bytes:
    """Return rank 0's bytes on every rank."""
    if not size:
        return b""
    buffer = torch.frombuffer(bytearray(content or size), dtype=torch.uint8).to(group.device)
    dist.broadcast(buffer, 0)
    return raw_bytes(buffer)


def parse(content: bytes, path: str) -> dict[str, t.Any]:
    """Read a checkpoint: tensors, numbers, texts, lists and dictionaries, no other objects."""
    try:
        document = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as exc:  # a damaged archive may raise anything
        raise WorkloadError(_damaged(path, content, _reason(exc))) from exc
    try:
        if document["schema"] != SCHEMA:
            raise ValueError
        right = digest(document) == document["digest"]
        state = {**json.loads(document["plain"]), "model": document["model"]}
        state["optimizer"] = {"state": document["optimizer"], "param_groups": state.pop("groups")}
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise WorkloadError(
            "%s is not a checkpoint of this trainer: remove it, or name another with --checkpoint" % path
        ) from exc
    if not right:
        raise WorkloadError(_damaged(path, content, "its SHA-256 is not the one that was written"))
    return state


def _damaged(path: str, content: bytes, why: str) -> str:
    return "The checkpoint %s is cut or damaged (%d bytes): %s. Remove it to start again" % (path, len(content), why)


def _reason(error: Exception) -> str:
    """Return why PyTorch cannot read it, without the advice to read it unsafely."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return "it contains what no checkpoint has" if "weights_only" in str(error) else lines[0].strip().rstrip(".")


def refuse_other_run(state: dict[str, t.Any], settings: dict[str, t.Any], path: str) -> None:
    """Raises WorkloadError for the checkpoint of a run with other settings, which cannot be continued."""
    saved = state["settings"]
    for name in sorted(set(saved) | set(settings)):
        if saved.get(name) != settings.get(name):
            raise WorkloadError(
                "The checkpoint %s is of another run: %s was %s and is %s now. Start it with the"
                " options of that run, or remove the file" % (path, name, saved.get(name), settings.get(name))
            )


__all__ = ("load", "refuse_existing", "save")
