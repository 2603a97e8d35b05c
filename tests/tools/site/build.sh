#!/usr/bin/env bash
# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Renders docs/ into .cache/site. A warning, such as a link that leads nowhere, is an error.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
environment=.cache/site-environment
lock=requirements/site.lock

if ! cmp -s "$lock" "$environment/.lock"; then
  echo "site: installing Sphinx"
  rm -rf "$environment"
  timeout 120 .venv/bin/python -m venv "$environment"
  timeout 300 .deps/uv/bin/uv pip sync --quiet --require-hashes --system-certs --python "$environment/bin/python" "$lock"
  cp "$lock" "$environment/.lock"
fi
rm -rf .cache/site
timeout 300 "$environment/bin/python" -m sphinx --quiet --fail-on-warning --keep-going --jobs auto \
  --conf-dir tests/tools/site --doctree-dir .cache/site-doctrees docs .cache/site
cp .cache/site/README.html .cache/site/index.html
echo "site: .cache/site/index.html"
