# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What a pod begins with: build the environment where the job runs, then become the program.

    python3 start.pyz '{"nccl": {}, "required": true, "wait": 120}' torchrun train.py

A pod with its own network has other entries in the GID table than the host and than the next pod.
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t

from .._errors import FabricError

EXIT = 78  # EX_CONFIG in sysexits.h


def say(text: str) -> None:
    sys.stderr.write("rdmaops.gpu_fabric: %s\n" % text)
    sys.stderr.flush()


def look() -> dict[str, t.Any]:
    from .._rdma import devices

    return devices.look(("gids",))


def nccl_variables(
    options: t.Mapping[str, t.Any],
    wait: float,
    required: bool,
    see: t.Callable[[], t.Mapping[str, t.Any]] = look,
    pause: float = 2.0,
) -> dict[str, str]:
    """Return NCCL's variables, as soon as there are ports for it: a device may come after the pod has started."""
    from .._rails.nccl_env import nccl_env

    until = time.monotonic() + wait
    reported = False
    while True:
        try:
            return nccl_env(see(), **options)
        except (FabricError, OSError) as exc:
            reason = str(exc)
        if time.monotonic() >= until:
            break
        if not reported:
            say("waiting up to %d s: %s" % (wait, reason))
            reported = True
        time.sleep(pause)
    if required:
        raise FabricError(reason)
    say("continuing without: %s" % reason)
    return {}


def master_variables(variable: str, environ: t.Mapping[str, str]) -> dict[str, str]:
    """Return the address of the master: the first of a list of hosts that the scheduler has put into a variable."""
    hosts = [host.strip() for host in environ.get(variable, "").split(",") if host.strip()]
    if not hosts:
        lists = sorted(name for name in environ if name.endswith("_HOSTS"))
        raise FabricError(
            "Reading the master's address: the variable %s is %s. Lists of hosts are in: %s. Correct "
            "master_hosts_variable"
            % (variable, "empty" if variable in environ else "not set", ", ".join(lists) or "none")
        )
    return {"MASTER_ADDR": hosts[0], "PET_MASTER_ADDR": hosts[0]}


def prepare(config: t.Mapping[str, t.Any], environ: t.Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of the program; what is set for the pod stays."""
    variables: dict[str, str] = {}
    if config.get("nccl") is not None:
        variables.update(nccl_variables(config["nccl"], float(config.get("wait", 0)), bool(config.get("required"))))
    if config.get("master_from"):
        variables.update(master_variables(config["master_from"], environ))
    kept = {name: value for name, value in environ.items() if name in variables}
    for name in sorted(variables):
        say("%s=%s%s" % (name, kept.get(name, variables[name]), " (as the pod has it)" if name in kept else ""))
    return {**environ, **variables, **kept}


def main() -> int:
    """Become the program, or return the exit status that says why not (as a shell's, sh(1))."""
    config, argv = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        environment = prepare(config, os.environ)
    except FabricError as exc:
        say(str(exc))
        return EXIT
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as exc:
        say("Starting %s: %s" % (argv[0], exc.strerror))
        return 127 if isinstance(exc, FileNotFoundError) else 126


__all__ = ("EXIT", "main", "master_variables", "nccl_variables", "prepare")
