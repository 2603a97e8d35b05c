#!/usr/bin/env bash
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes .venv in the checkout from requirements/*.lock, with this collection and those of others that
# tests use. Does nothing when .venv is as it should be.
#
#   PYTHON=python3.12 tests/tools/dev.sh     another interpreter (3.11, 3.12 or 3.13)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=$PWD
collections=(ansible/posix kubernetes/core)

say() { printf 'dev: %s\n' "$*"; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

wanted_state() {
  printf 'path %s\n' "$here"
  sha256sum requirements/bootstrap.lock requirements/collections.lock requirements/dev.lock tests/tools/dev.sh
}

in_sync() {
  [[ -x .venv/bin/python && -r .venv/.stamp ]] || return 1
  [[ $(<.venv/.stamp) == "$(wanted_state)" ]] || return 1
  [[ -z ${PYTHON:-} ]] || [[ $("$PYTHON" -c "$version") == "$(.venv/bin/python -c "$version")" ]]
}

# ansible-core 2.19 runs its controller on 3.11 to 3.13. A pyenv shim may stand in PATH for a version
# that is not selected (it exits 127), so every candidate has to prove that it runs and has venv.
version='import sys; print("%d.%d" % sys.version_info[:2])'
usable() {
  timeout 30 "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}
find_python() {
  local candidate
  if [[ -n ${PYTHON:-} ]]; then
    usable "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13 with the venv module."
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3 \
    "${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}"/versions/3.1[123]*/bin/python3; do
    if usable "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "no Python 3.11, 3.12 or 3.13 with the venv module was found. Install one" \
    "(Debian, Ubuntu: apt-get install python3-venv) or name one: make dev PYTHON=/path/to/python3.12"
}

install_uv() {
  local python=$1
  [[ -x .deps/uv/bin/uv ]] && (cd / && "$here/.deps/uv/bin/python" -m pip --version) >/dev/null 2>&1 &&
    [[ $(cat .deps/uv/.lock 2>/dev/null) == "$(<requirements/bootstrap.lock)" ]] && return
  rm -rf .deps/uv
  timeout 120 "$python" -m venv .deps/uv
  timeout 300 .deps/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
    -r requirements/bootstrap.lock || return 1
  cp requirements/bootstrap.lock .deps/uv/.lock
}

install_packages() {
  local python=$1
  # Scripts name their interpreter by its path: an environment that was moved is made anew.
  if [[ $(head -n 1 .venv/.stamp 2>/dev/null) != "path $here" || -n ${PYTHON:-} ]]; then
    rm -rf .venv
  fi
  rm -f .venv/.stamp
  if install_uv "$python"; then
    [[ -x .venv/bin/python ]] || timeout 120 .deps/uv/bin/uv venv --quiet --no-config --no-python-downloads --python "$python" .venv
    # The machine's own certificates: a site's package index may have one of the site's.
    if timeout 900 .deps/uv/bin/uv pip sync --quiet --no-config --system-certs --require-hashes --python .venv/bin/python requirements/dev.lock; then
      return
    fi
    say "uv could not install the packages, trying pip"
  else
    say "uv could not be had, using pip (slower)"
  fi
  [[ -x .venv/bin/python ]] && .venv/bin/python -c 'import pip' 2>/dev/null || timeout 120 "$python" -m venv --clear .venv
  timeout 1800 .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
}

# site-packages/ansible_collections is searched by every Ansible tool and by pytest, with no variable set.
# The collections of others are taken out of the community wheel: its checksum is in the lock.
link_collections() {
  local site=$1 python=$2 pip=.deps/uv/bin/python
  mkdir -p "$site/ansible_collections/rdmaops"
  ln -sfn "$here" "$site/ansible_collections/rdmaops/gpu_fabric"
  if [[ $(cat .deps/collections.lock 2>/dev/null) != "$(<requirements/collections.lock)" || ! -d .deps/ansible_collections ]]; then
    rm -rf .deps/wheel .deps/ansible_collections .deps/collections.lock
    "$pip" -m pip --version >/dev/null 2>&1 || pip=.venv/bin/python
    say "fetching ${collections[*]}"
    timeout 600 "$pip" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      --dest .deps/wheel -r requirements/collections.lock
    timeout 120 "$python" - "${collections[@]}" <<'P'
import glob
import sys
import zipfile

wheel = zipfile.ZipFile(glob.glob(".deps/wheel/ansible-*.whl")[0])
wanted = tuple("ansible_collections/%s/" % name for name in sys.argv[1:])
wheel.extractall(".deps", [name for name in wheel.namelist() if name.startswith(wanted)])
P
    rm -rf .deps/wheel
    cp requirements/collections.lock .deps/collections.lock
  fi
  local name
  for name in "${collections[@]}"; do
    rm -rf "$site/ansible_collections/$name"
    mkdir -p "$site/ansible_collections/${name%/*}"
    cp -r ".deps/ansible_collections/$name" "$site/ansible_collections/$name"
  done
}

main() {
  local python site
  if in_sync; then
    say ".venv is up to date"
    return
  fi
  mkdir -p .deps
  exec 9>.deps/lock
  flock --timeout 1800 9 || die "another 'make dev' has held .deps/lock for half an hour."
  if in_sync; then
    return
  fi
  python=$(find_python)
  say "making .venv with $python ($("$python" -c "$version"))"
  install_packages "$python"
  site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  link_collections "$site" "$python"
  wanted_state >.venv/.stamp
  say ".venv is ready"
}

main
