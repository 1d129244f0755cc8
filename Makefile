# Everything a person types here. Needs python3 with venv, and make; uv is used if it is there.

SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PYTEST_WORKERS ?= 2

# A shim of a version manager may be called uv and be none: ask it, do not just look for it.
UV = $(shell if uv --version >/dev/null 2>&1; then echo uv; else echo $(BIN)/uv; fi)
export UV_PYTHON_DOWNLOADS = never

.PHONY: help install demo test test-long lint lock

help:
	@echo "make demo       a run that is killed three times and loses nothing; no key, no servers"
	@echo "make test       lint and the whole suite but the long tests"
	@echo "make test-long  the long tests"
	@echo "make lint       ruff, mypy, pyright, import directions"
	@echo "make lock       resolve the dependencies anew and write requirements.lock"

install: $(INSTALLED)

# requirements.lock holds exact versions and hashes and names no registry, so that it works with
# whatever mirror a machine is set up for.
$(INSTALLED): requirements.lock pyproject.toml
	@echo "== installing into .venv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11: say make PYTHON=python3.12, or which you have"; exit 1; }
	@if [ ! -x $(BIN)/python ]; then $(PYTHON) -m venv .venv; fi
	@if ! uv --version >/dev/null 2>&1 && [ ! -x $(BIN)/uv ]; then \
		$(BIN)/python -m pip install --quiet uv; fi
	$(UV) pip install --python $(BIN)/python --require-hashes -r requirements.lock
	$(UV) pip install --python $(BIN)/python --no-deps --editable .
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python starter.py demo

lint: $(INSTALLED)
	@echo "== ruff";         $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "== mypy";         $(BIN)/mypy
	@echo "== pyright";      PATH="$$PWD/$(BIN):$$PATH" $(BIN)/pyright
	@echo "== import-linter"; $(BIN)/lint-imports

test: lint
	@echo "== pytest"
	$(BIN)/pytest -n $(PYTEST_WORKERS) --durations=10

test-long: $(INSTALLED)
	$(BIN)/pytest -n $(PYTEST_WORKERS) -m long --durations=10

# uv.lock names a registry's host and is not committed; the export of it does not.
lock:
	@if ! uv --version >/dev/null 2>&1 && [ ! -x $(BIN)/uv ]; then \
		$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet uv; fi
	$(UV) lock
	$(UV) export --quiet --all-extras --all-groups --no-emit-project --no-header --no-annotate \
		--format requirements-txt --output-file requirements.lock
	@if grep -nE '://|file:|index-url|find-links|^-e|^\.|^/' requirements.lock; then \
		echo "requirements.lock names a host or a path (above): it must not be committed" >&2; \
		exit 1; fi
