# Everything runs from .venv in this checkout; HOME takes caches only: pip's, Go's, and the control plane's binaries.
# A fresh machine needs Python 3.11 or newer and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory
.NOTPARALLEL: # two pips at once in one .venv spoil it
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.8
ARGS ?=
DEV = $(VENV)/.dev $(VENV)/.kohort

# An own PYTHONPATH or PYTHONHOME would put foreign packages into .venv.
unexport PYTHONPATH
unexport PYTHONHOME
# A run starts hundreds of Python processes: none of them compiles what another has compiled.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
export PIP_DISABLE_PIP_VERSION_CHECK := 1

CHECKED := policy extender lab tests benchmarks

##@ Use it

.PHONY: demo
demo: $(VENV)/.kohort ## run the main job on the embedded cluster (ARGS="--help" for its options)
	@$(BIN)/kohort demo $(ARGS)

.PHONY: cluster
cluster: $(DEV) ## start the real control plane with Kohort and leave it running (NODES= CPU= MEMORY= GPU=)
	@$(BIN)/python -m tests.controlplane up \
	  $(if $(NODES),--nodes $(NODES)) $(if $(CPU),--cpu $(CPU)) $(if $(MEMORY),--memory $(MEMORY)) $(if $(GPU),--gpu $(GPU)) $(ARGS)

.PHONY: cluster-down
cluster-down: $(DEV) ## end what `make cluster` started
	@$(BIN)/python -m tests.controlplane down $(ARGS)

##@ Test it

.PHONY: test
test: $(DEV) ## the gate: all checks, and the tests that a change is most likely to break (8 to 20 minutes)
	@$(BIN)/python -m tests.commands test $(ARGS)

.PHONY: full
full: $(DEV) ## everything that `make test` has and leaves out (hours); begun again after a stop it goes on
	@$(BIN)/python -m tests.commands full $(ARGS)

.PHONY: check
check: $(DEV) ## lint, format, types, import contracts, Dockerfile, documentation
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== mypy --strict"
	@$(BIN)/mypy $(CHECKED)
	@echo "== import contracts"
	@$(BIN)/lint-imports --no-logo
	@echo "== hadolint"
	@$(BIN)/hadolint Dockerfile
	@echo "== mkdocs --strict"
	@$(MKDOCS)

.PHONY: unit
unit: $(DEV) ## the units and properties of `make test`: they need neither a control plane nor a browser
	@$(BIN)/pytest -n 2 tests/unit tests/property tests/papers tests/simulation $(ARGS)

.PHONY: browser
browser: $(DEV) ## find a Chromium for the tests of the page, or install one
	@echo "== Chromium"
	@$(BIN)/python -m tests.browser.chromium

.PHONY: soak
soak: $(DEV) ## the very long runs that `make full` leaves out
	@$(BIN)/python -m tests.controlplane build
	@$(BIN)/pytest -m soak $(ARGS)

.PHONY: skew
skew: $(DEV) ## the main flow on Kubernetes 1.34 to 1.37; builds each that is not cached (ARGS="-k 1.36" for one)
	@$(BIN)/pytest -m skew -s tests/e2e/test_skew.py $(ARGS)

# Each with the sizes that its bounds are about.
BENCHES = "decisions --nodes 1000 --waiting 0 500" "verbs" "beside" "stalled" "rebuild" "rebuild --nodes 5000 --pods-per-node 4" \
  "gang_throughput" "gang_throughput --nodes 5000 --gangs 60 --against plain --rounds 3" \
  "burst --nodes 50 --seconds 8 --rooms 8" "simulator --nodes 64 --jobs 10000" "simulator --per-node 2" \
  "preemption"

.PHONY: bench
bench: $(DEV) ## run every benchmark and compare with its bounds; to the end, on a machine that does nothing else
	@$(BIN)/python -m tests.controlplane build
	@missed=(); for one in $(BENCHES); do \
	  echo "== $$one"; $(BIN)/python -m benchmarks.$$one --check $(ARGS) || missed+=("$$one"); \
	done; \
	if (($${#missed[@]})); then printf 'missed: %s\n' "$${missed[@]}"; exit 1; fi

##@ Work on it

.PHONY: dev
dev: $(DEV) ## set up .venv with everything that tests and checks need
	@echo "ready: $(BIN)"

# Its banner about successors is no finding. Not --quiet: --strict does not count what is not said.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir $(VENV)/site

.PHONY: docs
docs: $(DEV) ## write docs/reference anew from the code and build the site into .venv/site
	@$(BIN)/python -m tests.documents
	@$(MKDOCS)
	@echo "open $(VENV)/site/index.html"

.PHONY: fmt
fmt: $(DEV) ## mend what ruff can mend
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Each lock takes the one before as its constraint, so that one .venv can hold them all.
LOCK = $(VENV)/lock/bin/uv --no-config pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(ARGS)

.PHONY: lock
lock: $(VENV)/bin/python ## pin all dependencies anew, with hashes (ARGS=--upgrade for newer versions)
	@echo "== resolving"
	@$(BIN)/python -m venv $(VENV)/lock
	@$(VENV)/lock/bin/pip install --quiet uv==$(UV_VERSION)
	@$(LOCK) requirements/build.in -o requirements/build.txt
	@$(LOCK) pyproject.toml -c requirements/build.txt -o requirements/runtime.txt
	@$(LOCK) pyproject.toml --extra dev --extra sim --extra dask --extra parquet -c requirements/runtime.txt -o requirements/dev.txt

.PHONY: clean
clean: ## remove .venv and every cache of this checkout
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find policy extender lab tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# -- .venv: stamps, so that a step runs again only when its lock has changed ---------------------

# The first that runs, is new enough and can make a venv; PYTHON=... overrides. Pyenv's shims exist for
# versions that do not run, and Debian's python3 lacks ensurepip without python3-venv: so each is tried.
FIND_PYTHON = for p in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
    "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; exit; }; \
  done; true

PIP = $(BIN)/python -m pip --no-input

define install
@echo "== installing $$(cat $(2) | grep -c '^[a-z].*==') packages $(1)"
@$(PIP) install --require-hashes $(addprefix -r ,$(2)) | sed -u '/^Requirement already satisfied/d'
@touch $@
endef

$(BIN)/python:
	@python="$$($(FIND_PYTHON))"; \
	if [ -z "$$python" ]; then \
	  echo "Kohort needs Python 3.11 or newer with its venv module (Debian: python3-venv). None found;" >&2; \
	  echo "name one with: make PYTHON=/path/to/python3 ..." >&2; exit 1; \
	fi; \
	echo "== creating $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)

$(VENV)/.runtime: requirements/build.txt requirements/runtime.txt | $(BIN)/python
	$(call install,to run Kohort (under a minute),requirements/build.txt requirements/runtime.txt)

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(call install,to test and develop (about a minute),requirements/dev.txt)

# The project itself, editable: its commands change with pyproject.toml, its code needs no new installation.
$(VENV)/.kohort: pyproject.toml $(VENV)/.runtime
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
