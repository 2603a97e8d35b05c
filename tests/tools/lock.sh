#!/usr/bin/env bash
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Resolves requirements/*.in into requirements/*.lock, with hashes, for Python 3.11 and newer.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
uv=.deps/uv/bin/uv
[[ -x $uv ]] || { echo "lock: no $uv: 'make dev' could not get it" >&2; exit 1; }

for name in bootstrap dev; do
  result=$(mktemp)
  {
    printf '# Copyright: (c) 2026, rdmaops contributors\n# SPDX-License-Identifier: GPL-3.0-or-later\n#\n'
    timeout 300 "$uv" pip compile --quiet --no-config --system-certs --universal --upgrade --generate-hashes --python-version 3.11 \
      --custom-compile-command "make lock" "requirements/$name.in"
  } >"$result"
  mv "$result" "requirements/$name.lock"
  chmod 0644 "requirements/$name.lock"
done
