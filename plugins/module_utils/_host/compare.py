# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""What the modules of a node would change, asked in one process: by their own code, as in check mode."""

from __future__ import annotations

import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from .._decision import IN_SYNC
from .._errors import FabricError
from . import owned_files as host_owned_files

Params = t.Mapping[str, t.Any]
Result = t.Dict[str, t.Any]


def rdma_system(params: Params) -> Result:
    from .._rdma_mode import manage, model

    return manage.manage(checked(manage.ARGUMENTS, params), True, model.Host())


def owned_files(params: Params) -> Result:
    decision, result = host_owned_files.decide(checked(host_owned_files.ARGUMENTS, params)["files"])
    return {**decision.result(), **result}


def modprobe_options(params: Params) -> Result:
    from .._module_params import manage as module_params

    options = module_params.check(checked(module_params.ARGUMENTS, params))
    return module_params.manage(options, True, module_params.Host(options.root), [])


def host_rails(params: Params) -> Result:
    from . import rails

    return rails.manage(checked(rails.ARGUMENTS, params), True, rails.Host())


LOOKS: dict[str, t.Callable[[Params], Result]] = {
    "rdma_system": rdma_system,
    "owned_files": owned_files,
    "modprobe_options": modprobe_options,
    "host_rails": host_rails,
}


def checked(arguments: t.Mapping[str, t.Any], params: Params) -> dict[str, t.Any]:
    """Return a module's options as its own process would get them: checked, converted, with their defaults."""
    validation = ArgumentSpecValidator(arguments).validate(dict(params))
    if validation.error_messages:
        raise FabricError("; ".join(validation.error_messages))
    return dict(validation.validated_parameters)


def compare(
    wishes: t.Mapping[str, t.Sequence[Params]], looks: t.Mapping[str, t.Callable[[Params], Result]] | None = None
) -> tuple[dict[str, list[Result]], list[str]]:
    """Ask each module once for each of its options.

    :param looks: how a module is asked, by its name; by default LOOKS.
    :return: results by the modules' names, and a sentence for each thing that is not to be left as it is.
    """
    results: dict[str, list[Result]] = {}
    differs = []
    for name, asked in wishes.items():
        results[name] = []
        for params in asked:
            try:
                result = (LOOKS if looks is None else looks)[name](params)
            except (FabricError, OSError) as exc:
                differs.append("%s: %s" % (name, exc))
                continue
            results[name].append(result)
            differs += ["%s: %s" % (name, why) for why in reasons(result)]
    return results, differs


def reasons(result: Result) -> list[str]:
    """Return why a module has to run itself: it has something to do, to warn of, or does not know."""
    messages = [*result["actions"], *result.get("warnings", ())]
    odd = ["%s is %s" % (row["name"], row["status"]) for row in result["resources"] if row["status"] != IN_SYNC]
    return messages or odd


__all__ = ("compare",)
