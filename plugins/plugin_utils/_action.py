# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the actions that run on the controller alone have in common."""

from __future__ import annotations

import abc
import os
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._errors import FabricError
from ..module_utils._files_write import atomic_write


class ControllerAction(ActionBase):
    """An action without a connection, which supports check mode. ``act`` returns what the result has."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    ARGUMENT_SPEC: t.Mapping[str, t.Any]

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result. Raises AnsibleActionFail for invalid arguments, and if ``act`` raises FabricError."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(argument_spec=self.ARGUMENT_SPEC)
        try:
            return {**result, **self.act(arguments)}
        except FabricError as exc:
            raise AnsibleActionFail(str(exc)) from exc

    @abc.abstractmethod
    def act(self, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Act on the validated arguments."""

    def write_report(self, path: str, text: str) -> bool:
        """Write a file whose text differs, but not in check mode; return whether it differs."""
        if _holds(path, text):
            return False
        if not self._task.check_mode:
            atomic_write(path, text, 0o666 & ~_umask())
        return True


def _umask() -> int:
    former = os.umask(0o077)
    os.umask(former)
    return former


def _holds(path: str, text: str) -> bool:
    """Return whether a file has this text. An unreadable one is written, and the error shows why it failed."""
    try:
        if os.path.getsize(path) > 1 << 28:
            return False
        with open(path, "rb") as stream:
            return stream.read() == text.encode("utf-8", "surrogateescape")
    except OSError:
        return False


__all__ = ("ControllerAction",)
