# Copyright: (c) 2026, rdmaops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection: it may change in any release.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  netns:
    description: Network namespace by its name, as C(ip netns) lists it, or by a path such as V(/proc/4242/ns/net).
    type: str
  pid:
    description: Network namespace of the process with this PID, as the host counts them.
    type: int
  container:
    description:
      - Network namespace of a container on this host, by its id (12 to 64 hexadecimal digits, C(containerd://) may come before it).
      - Containers of users, whose control groups are below C(user.slice), are not looked for, because a user can name a group as they like.
    type: str
  pod:
    description: Network namespace of a pod on this host, as V(NAMESPACE/NAME). A pod with the host's network is refused.
    type: str
"""
