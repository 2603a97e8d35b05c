#!/usr/bin/env bash
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs what the lab uses of this machine (Debian, Ubuntu), and with the word `tests` what the tests
# use too. Does nothing when all of it is there. Without root it asks sudo; without apt it names what is
# missing. Where systemd runs, Debian starts some of the tests' packages as services.
set -euo pipefail

packages=(
  # make dev
  git make python3-venv ca-certificates
  # reading and building initramfs, asking kmod
  cpio kmod lz4 lzop xz-utils zstd
  # the virtual machines
  e2fsprogs fdisk mmdebstrap mount qemu-system-x86 qemu-utils util-linux
  iproute2 openssh-client
  # the control plane
  etcd-server
)
tests=(
  # container images
  buildah busybox-static containerd docker-registry runc
  # the exporter, what judges its answers, and its peer
  openssl prometheus prometheus-node-exporter python3-bcrypt python3-yaml systemd
)
[[ ${1:-} != tests ]] || packages+=("${tests[@]}")

missing() {
  local package
  for package in "${packages[@]}"; do
    dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      printf '%s\n' "$package"
  done
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "host packages: no apt on this machine. What Debian calls these is needed: ${packages[*]}" >&2
  exit 0
fi

mapfile -t wanted < <(missing)
if ((${#wanted[@]} == 0)); then
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "host packages: neither root nor sudo. As root: apt-get install ${wanted[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "host packages: installing ${wanted[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
  apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
timeout 600 "${apt[@]}" update </dev/null
timeout 1800 "${apt[@]}" install --no-install-recommends "${wanted[@]}" </dev/null
