#!/usr/bin/env bash
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Resolves requirements/*.in into requirements/*.lock, with hashes, for the Python that each is for and newer ones.
#
#   tests/tools/lock.sh dev galaxy-importer     some of them
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
uv=.deps/uv/bin/uv
[[ -x $uv ]] || { echo "lock: no $uv: 'make dev' could not get it" >&2; exit 1; }

declare -A python=(
  [bootstrap]=3.11 [dev]=3.11 [galaxy-importer]=3.11 [site]=3.11 [ansible-core-2.18]=3.11 [ansible-core-2.20]=3.12
  [ansible-core-newest]=3.13 [python-3.8]=3.8
)
(($#)) || set -- "${!python[@]}"
for name in "$@"; do
  [[ -n ${python[$name]:-} ]] || { echo "lock: there is no requirements/$name.in" >&2; exit 1; }
  result=$(mktemp)
  {
    # REUSE-IgnoreStart
    printf '# Copyright: (c) 2026, rdmaops contributors\n# SPDX-License-Identifier: GPL-3.0-or-later\n#\n'
    # REUSE-IgnoreEnd
    timeout 300 "$uv" pip compile --quiet --no-config --system-certs --universal --upgrade --generate-hashes --python-version "${python[$name]}" \
      --custom-compile-command "make lock" "requirements/$name.in"
  } >"$result"
  mv "$result" "requirements/$name.lock"
  chmod 0644 "requirements/$name.lock"
done
