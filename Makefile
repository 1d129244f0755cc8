# Everything a person types here. Needs python3 with venv, and make; uv is used if it is there.

SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_DEV := .venv/.installed-dev
# More than there are cores: a test spends half its time waiting for a lease or a timer to run out.
PYTEST_WORKERS ?= 3

# A version manager's shim may be called uv and be none: ask it, do not just look for it.
FIND_UV := if uv --version >/dev/null 2>&1; then uv=uv; else uv=$(BIN)/uv; fi
BRING_UV := uv --version >/dev/null 2>&1 || [ -x $(BIN)/uv ] || \
	{ $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet uv; }
export UV_PYTHON_DOWNLOADS = never
# Tests and the demo start dozens of processes, and without bytecode each compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-long lint lock peers images recording wheel

help:
	@echo "make demo       a run that is killed three times and loses nothing; no key, no servers"
	@echo "make test       lint and the whole suite but the long tests"
	@echo "make test-long  the long tests"
	@echo "make lint       ruff, mypy, pyright, import directions"
	@echo "make images     the pictures in docs/images, taken of the real Temporal UI; needs chromium"
	@echo "make recording  docs/images/demo.svg, of the demo as it runs"
	@echo "make wheel      dist/onward-….whl, to install elsewhere"
	@echo "make peers      what benchmarks/peers.py measures Onward against, and what draws its plots"
	@echo "make lock       resolve the dependencies anew and write the locks"

install: $(INSTALLED_DEV)

# The locks hold exact versions and hashes and name no registry, so that they work with whatever
# mirror a machine is set up for. The demo does not wait for the checkers' hundred megabytes.
$(INSTALLED): requirements.lock pyproject.toml
	@$(call bring,requirements.lock)
	@touch $@

$(INSTALLED_DEV): requirements-dev.lock pyproject.toml
	@$(call bring,requirements-dev.lock)
	@touch $@ $(INSTALLED)

define bring
	echo "== installing $(1) into .venv"; set -e; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: say make PYTHON=python3.12, or which you have"; exit 1; }; \
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv; \
	uv --version >/dev/null 2>&1 || [ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv; \
	$(FIND_UV); \
	$$uv pip install --compile-bytecode --python $(BIN)/python --require-hashes -r $(1); \
	$$uv pip install --python $(BIN)/python --no-deps --editable .
endef

demo: $(INSTALLED)
	$(BIN)/python starter.py demo

lint: $(INSTALLED_DEV)
	@echo "== ruff";         $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy";         $(BIN)/mypy
	@echo "== pyright";      $(BIN)/pyright
	@echo "== import-linter"; $(BIN)/lint-imports

test: lint
	@echo "== pytest"
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal --durations=10

test-long: $(INSTALLED_DEV)
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist worksteal -m long --durations=10

images: $(INSTALLED_DEV)
	ONWARD_PICTURES=docs/images $(BIN)/pytest -p no:randomly tests/test_temporal_ui.py

recording: $(INSTALLED_DEV)
	$(BIN)/python tests/record_demo.py

wheel:
	@$(BRING_UV)
	@$(FIND_UV); $$uv build --quiet --wheel --out-dir dist && ls dist/*.whl

peers: $(INSTALLED_DEV)
	@$(call bring,requirements-peers.lock)

# uv.lock names a registry's host and is not committed; the exports of it do not.
EXPORT = $$uv export --quiet --frozen --no-emit-project --no-header --no-annotate \
	--format requirements-txt
lock:
	@$(BRING_UV)
	@set -e; $(FIND_UV); $$uv lock; \
	$(EXPORT) --all-extras --no-default-groups --output-file requirements.lock; \
	$(EXPORT) --all-extras --output-file requirements-dev.lock; \
	$(EXPORT) --only-group peers --output-file requirements-peers.lock
	@if grep -nE '://|file:|index-url|find-links|^-e|^\.|^/' requirements*.lock; then \
		echo "a lock names a host or a path (above): it must not be committed" >&2; exit 1; fi
