# Copyright: (c) 2026, rdmaops contributors
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
.DEFAULT_GOAL := help

# One part of `make test`, or several: PART="lint unit"; REPEAT=10: unit, integration and cluster ten times in another
# order each time, BUSY=1: beside a busy loop
PART ?=
REPEAT ?=
BUSY ?= 0
# Of `make test-all`: these parts (ONLY="pods drift"), or this one and those after it
ONLY ?=
FROM ?=
# 1: what cannot be tested here fails instead of being skipped
export REQUIRE_ALL
# A node of the lab, for lab-ssh
NODE ?= gpu-1
# The interpreter that `make dev` makes .venv with (3.11 to 3.13)
export PYTHON

.PHONY: help
help: ## show this
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

.PHONY: dev
dev: ## make .venv from the pinned lock, the collection linked into it (PYTHON=python3.12)
	@tests/tools/dev.sh

.PHONY: demo
demo: ## two virtual GPU nodes from nothing to exclusive mode, with RDMA between them
	@tests/lab/demo

.PHONY: test
test: dev ## lint, sanity, docs, unit, integration, cluster, artifact, molecule (PART=unit, REPEAT=10, REQUIRE_ALL=1)
	@.venv/bin/python tests/run.py $(PART) $(if $(REPEAT),--repeat $(REPEAT) --busy $(BUSY))

.PHONY: test-all
test-all: dev ## every scenario, and the long fault and fuzz runs; goes on after the last part that passed (ONLY=, FROM=)
	@.venv/bin/python tests/run.py --all $(ONLY) $(if $(FROM),--from $(FROM))

.PHONY: bench
bench: dev ## the benchmarks, each against its peer in the same run (BENCH=scale, with the lab up for all)
	@.venv/bin/python tests/benchmarks/run.py $(BENCH)

.PHONY: mutants
mutants: dev ## small mistakes in the code that decides: the unit tests have to find 95 % (20 minutes, SEED=2)
	@nice .venv/bin/python tests/mutants/run.py $(if $(SEED),--seed $(SEED))

.PHONY: lab-up lab-down lab-ssh
lab-up: dev ## start the lab's virtual machines, and a Kubernetes control plane here
	@.venv/bin/python tests/lab/lab.py up
	@.venv/bin/python tests/lab/lab.py cluster up
lab-down: dev ## stop them, and leave nothing behind
	@.venv/bin/python tests/lab/lab.py cluster down
	@.venv/bin/python tests/lab/lab.py down
lab-ssh: dev ## log in to one (NODE=gpu-1)
	@.venv/bin/python tests/lab/lab.py ssh $(NODE)

.PHONY: check
check: dev ## ruff and yamllint, in seconds; `make fix` repairs what it can
	@.venv/bin/ruff check --no-fix . && .venv/bin/ruff format --check . && .venv/bin/yamllint --strict .

.PHONY: fix
fix: dev ## let ruff format and repair what it can
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .

.PHONY: docs
docs: dev ## write docs/reference and the READMEs of roles anew from the code
	@.venv/bin/python tests/tools/reference.py

.PHONY: site
site: dev ## render docs/ as a site with search, in .cache/site
	@tests/tools/site/build.sh

.PHONY: lock
lock: dev ## resolve requirements/*.in anew
	@tests/tools/lock.sh

.PHONY: clean
clean: ## remove what `make dev` and tests made; the lab's disks stay (make lab-down)
	@rm -rf .venv .deps .cache .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache rdmaops-gpu_fabric-*.tar.gz
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
