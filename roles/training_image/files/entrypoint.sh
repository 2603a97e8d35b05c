#!/bin/sh
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts sshd with the keys of a mounted secret, then runs the command. Without the secret there is no sshd.
# The secret has ssh_host_ed25519_key and authorized_keys, and id_ed25519 where this container logs in to others.
set -eu

secret=${TRAINING_SSH_SECRET:-/etc/training-ssh}
keys=/run/training-ssh

if [ -r "$secret/ssh_host_ed25519_key" ]; then
  umask 077
  # sshd and ssh refuse keys that others may read, as those of a mounted secret are.
  mkdir -p "$keys"
  for name in ssh_host_ed25519_key authorized_keys id_ed25519; do
    if [ -r "$secret/$name" ]; then
      cat "$secret/$name" >"$keys/$name"
    fi
  done
  # For OpenSSH before 8.5, which has no KnownHostsCommand.
  /usr/local/sbin/training-known-hosts >"$keys/known_hosts"
  /usr/sbin/sshd -f /etc/ssh/sshd_config.d/50-training.conf
  umask 022
else
  echo "training-entrypoint: there is no $secret/ssh_host_ed25519_key, so sshd is not started" >&2
fi

exec "$@"
