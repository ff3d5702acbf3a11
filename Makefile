# What a person types. Each target makes the virtual environment that it needs,
# as often as it is typed; `make help` lists them.

SHELL := bash
BIN := .venv/bin
KEEP ?=
ARGS ?=

# Without compiled files `import distributed` takes 7 s instead of 1 s.
unexport PYTHONDONTWRITEBYTECODE
# Whatever is installed there is not ours to count on.
unexport PYTHONPATH

.DEFAULT_GOAL := help
.PHONY: help demo demo-kubernetes enter-demo-kubernetes test test-kubernetes kube lint format types unit integration nightly benchmarks \
  reference lock environment environment-demo system-packages clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 25

demo: environment-demo ## create, scale, compute on and stop a cluster (KEEP=1: stay up)
	@$(BIN)/python -m gateway demo $(if $(KEEP),--keep) $(ARGS)

demo-kubernetes: environment system-packages kube ## the same on a Kubernetes of one node, as root (KEEP=1: stay up)
	@$(BIN)/python -m tests.harness.demo $(if $(KEEP),--keep)

enter-demo-kubernetes: ## a shell beside `make demo-kubernetes KEEP=1`, with kubectl
	@$(BIN)/python -m tests.harness.demo --enter

test: environment system-packages kube ## everything that decides whether a change is good
	@$(BIN)/python tools/check.py

test-kubernetes: environment system-packages kube ## tests on a real Kubernetes, as root (ARGS="-x PATH")
	@tests/harness/world.sh $(abspath $(BIN))/python -m pytest $(or $(ARGS),tests/integration/kubernetes)

lint: environment ## style, imports, spelling, dependencies
	@$(BIN)/python tools/check.py --only lint

types: environment ## mypy
	@$(BIN)/python tools/check.py --only types

unit: environment ## tests without processes or sockets: seconds
	@$(BIN)/python -m pytest -q tests/unit tests/property gateway backends $(ARGS)

integration: environment system-packages ## tests with real processes, Traefik and databases
	@$(BIN)/python -m pytest tests/integration tests/contract tests/chaos $(ARGS)

nightly: environment system-packages ## all tests, long ones too: hours
	@HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest --nightly $(ARGS)

benchmarks: environment ## compare with dask-gateway-server, in one run
	@$(BIN)/python -m benchmarks $(ARGS)

format: environment ## rewrite the code in the house's format
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format .

reference: environment ## write docs/reference again
	@$(BIN)/python tools/reference.py

lock: environment ## write tools/constraints.txt again, with today's releases
	@UV_SYSTEM_CERTS=1 $(BIN)/uv pip compile --quiet --universal --upgrade --no-header \
	  --python-version 3.11 --extra dev --no-emit-package daskfleet --no-annotate \
	  -o tools/constraints.txt pyproject.toml

environment:
	@tools/environment.sh dev

environment-demo:
	@tools/environment.sh demo

system-packages:
	@tools/system-packages.sh postgresql chromium node

kube:
	@tools/kube.sh >/dev/null

clean: ## remove the environment and all that was made
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
	  .coverage .coverage.* .check build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
