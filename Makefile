# Every target sets up what it needs; the second time that costs a moment.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ASAN := .venv-asan

SOURCES := $(shell find src -name '*.pyx' -o -name '*.pxd')

.PHONY: setup test test-long test-asan lint format bench dist clean help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/compiled $(VENV)/oracle  ## a virtual environment with everything compiled, and redis-server where apt can bring it

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group build --group test --group lint --group bench
	touch $@

$(VENV)/compiled: $(VENV)/installed setup.py $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

# The tests compare Headrace with a real redis-server; without one they say so and the rest run.
$(VENV)/oracle: | $(VENV)/installed
	@command -v redis-server >/dev/null || tools/install-redis.sh
	touch $@

test: setup  ## the tests
	$(BIN)/python -m pytest

test-long: setup  ## the same tests at campaign length
	HEADRACE_LONG=1 $(BIN)/python -m pytest --timeout 7200

lint: setup  ## ruff, mypy, cython-lint, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/cython-lint src
	$(BIN)/lint-imports

format: setup  ## rewrite the Python sources the way lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## forget everything that was built
	rm -rf $(VENV) $(ASAN) build dist src/*.egg-info
	find src -name '*.so' -delete
