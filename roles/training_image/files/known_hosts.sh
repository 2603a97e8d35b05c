#!/bin/sh
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Prints the host key of the other containers as known_hosts has it. All of a deployment have the same: that of its
# secret, or, in a job of the MPI Operator, the job's only key.
set -eu

for key in /run/training-ssh/ssh_host_ed25519_key /root/.ssh/id_rsa; do
  if [ -r "$key" ]; then
    echo "* $(ssh-keygen -y -f "$key")"
  fi
done
