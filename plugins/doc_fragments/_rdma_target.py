# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  netns:
    description: Network namespace by name, as listed by C(ip netns), or by path, such as V(/proc/4242/ns/net).
    type: str
  pid:
    description: Network namespace of the process with this PID, as seen in the host's PID namespace.
    type: int
  container:
    description:
      - Network namespace of a container on this host, by its ID (12 to 64 hexadecimal digits, optionally prefixed with C(containerd://)).
      - Containers of users, whose control groups are below C(user.slice), are not considered, because users can choose the names of their groups.
    type: str
  pod:
    description: Network namespace of a pod on this host, as V(NAMESPACE/NAME). A pod that uses the host's network is refused.
    type: str
"""
