# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What filters have in common: the errors of utils become Ansible's."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

try:
    from ansible.errors import AnsibleTypeError
except ImportError:  # ansible-core 2.18
    from ansible.errors import AnsibleFilterTypeError as AnsibleTypeError

from ..module_utils._errors import FabricError
from ..module_utils._rails.ports import RailsTypeError

F = t.TypeVar("F", bound=t.Callable[..., t.Any])


def ansible_errors(function: F) -> F:
    """Let a filter raise AnsibleTypeError for RailsTypeError, and AnsibleFilterError for any other FabricError."""

    @functools.wraps(function)
    def filtered(*arguments: t.Any, **options: t.Any) -> t.Any:
        try:
            return function(*arguments, **options)
        except RailsTypeError as exc:
            raise AnsibleTypeError(str(exc)) from exc
        except FabricError as exc:
            raise AnsibleFilterError(str(exc)) from exc

    return t.cast(F, filtered)


__all__ = ("AnsibleTypeError", "ansible_errors")
