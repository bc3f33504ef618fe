# Every target sets up what it needs; the second time that costs a moment.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ASAN := build/asan

# cython-lint runs pycodestyle by its name.
export PATH := $(abspath $(BIN)):$(PATH)

# Some machines forbid Python to keep bytecode. Each server that a test starts would compile 220 files again: that is
# half of its start.
unexport PYTHONDONTWRITEBYTECODE

SOURCES := $(shell find src -name '*.pyx' -o -name '*.pxd')
PYTHON_SOURCES := $(shell find src -name '*.py')
STUBBED := $(subst /,.,$(patsubst src/%.pyi,%,$(shell find src -name '*.pyi')))

.PHONY: setup demo test test-fast test-spark test-long test-asan coverage lint format bench bench-quick docs dist clean help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/compiled $(VENV)/oracle $(VENV)/java $(VENV)/browser  ## a virtual environment with everything compiled, redis-server and chromium where apt can bring them, and a Java

$(VENV)/installed: pyproject.toml
	@tools/install-python-build.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group build --group test --group lint --group bench
	touch $@

$(VENV)/compiled: $(VENV)/installed setup.py $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable '.[server]'
	touch $@

# The tests compare Headrace with a real redis-server; without one they say so and the rest run.
$(VENV)/oracle: | $(VENV)/installed
	@{ command -v redis-server && command -v redis-sentinel; } >/dev/null || tools/install-redis.sh
	touch $@

# The tests look at the console in a Chromium; without one they say so and the rest run.
$(VENV)/browser: | $(VENV)/installed
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || tools/install-chromium.sh
	touch $@

# Spark runs on Java; without one its tests say so and the rest run.
$(VENV)/java: | $(VENV)/compiled
	tools/install-java.sh $(BIN)/python
	touch $@

test: setup  ## the tests
	$(BIN)/python -m pytest --numprocesses $(if $(AGAIN),0,4) $(AGAIN)

test-fast: setup  ## of the tests, those for the loop of editing: the inner parts, without what is slow; under a minute
	$(BIN)/python -m pytest --numprocesses 2 -m 'not slow' tests/core tests/formats tests/protocol tests/commands tests/storage

test-spark: setup  ## of the tests, those that run a Spark
	$(BIN)/python -m pytest tests/spark

test-long: setup  ## the same tests at campaign length
	HEADRACE_LONG=1 $(BIN)/python -m pytest --timeout 7200

# The same sources compiled apart, with AddressSanitizer and UndefinedBehaviorSanitizer.
$(ASAN)/flags: setup.py
	rm -rf $(ASAN) $(ASAN)-objects
	mkdir -p $(ASAN)
	touch $@

$(ASAN)/compiled: $(ASAN)/flags pyproject.toml $(SOURCES) $(PYTHON_SOURCES) | setup
	HEADRACE_SANITIZE=1 $(BIN)/python setup.py --quiet build --parallel 2 --build-base $(ASAN)-objects --build-lib $(ASAN)
	touch $@

# The interpreter leaks when it exits; with stacks of three frames its own allocations show only its own functions,
# so that tools/leaks-not-ours leaves out those and no others.
SANITIZER_OPTIONS = \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=1:malloc_context_size=3:allocator_may_return_null=1:detect_stack_use_after_return=1 \
	LSAN_OPTIONS=suppressions=$(abspath tools/leaks-not-ours):print_suppressions=0 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# What reports to the terminal when the process ends needs -s; faulthandler would answer a crash before AddressSanitizer.
WATCHED := core columns formats protocol engine commands storage embedded api

test-asan: $(ASAN)/compiled  ## of the tests, those of the inner parts, with every memory access and leak of compiled code watched
	$(SANITIZER_OPTIONS) PYTHONMALLOC=malloc PYTHONPATH=$(abspath $(ASAN)) HEADRACE_BRIEF=1 \
		$(BIN)/python -m pytest -s -m 'not slow' --timeout 600 \
		-p no:faulthandler -o addopts='-ra --import-mode=importlib' -W ignore::pytest.PytestConfigWarning $(AGAIN) \
		$(WATCHED:%=tests/%)

# In a copy, because a module that tells its lines is several times as slow. A tracer makes Python objects of what functions
# return; where that is a listpack element, it would read on behind its text, so that the text is left out.
COVERED := $(WATCHED)
IN_COPY := cd build/coverage && PYTHONPATH=$(abspath build/coverage/src) $(abspath $(BIN))/python

coverage: setup  ## which lines of Python and Cython the tests of the inner parts run: some ten minutes
	$(BIN)/python -m pip install --quiet --group coverage
	rm -rf build/coverage
	mkdir -p build/coverage
	cp -r src tests setup.py pyproject.toml README.md LICENSE build/coverage
	find build/coverage -name '*.so' -delete
	cd build/coverage && HEADRACE_TRACE=1 $(abspath $(BIN))/python setup.py --quiet --name
	find build/coverage/src -name '*.c' | xargs sed -i -E 's/__Pyx_PyObject_FromCString\(s\.data\)/(Py_INCREF(Py_None), Py_None)/'
	cd build/coverage && HEADRACE_TRACE=1 $(abspath $(BIN))/python setup.py --quiet build_ext --inplace --parallel 2
	-export HEADRACE_BRIEF=1; $(IN_COPY) -m coverage run -m pytest --numprocesses 2 -m 'not slow' $(COVERED:%=tests/%)
	$(IN_COPY) -m coverage combine --quiet
	$(IN_COPY) -m coverage report --include '*.py'
	$(IN_COPY) -m coverage report --include '*.pyx'

lint: setup  ## ruff, mypy, stubtest, cython-lint, import-linter and its like for Cython; pages that `make docs` would change
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini --cache-dir .mypy_cache/tests
	$(BIN)/stubtest --ignore-missing-stub --ignore-disjoint-bases --allowlist tools/stubtest-allowlist \
		--mypy-config-file pyproject.toml $(STUBBED)
	$(BIN)/cython-lint src
	$(BIN)/lint-imports
	$(BIN)/python tools/cython_layers.py
	mkdir -p build
	$(BIN)/python -m headrace.commands.documentation.reference > build/commands.md && diff -u docs/commands.md build/commands.md
	$(BIN)/python -m headrace.commands.documentation.compatibility > build/compatibility.md && \
		diff -u docs/compatibility.md build/compatibility.md

format: setup  ## rewrite the Python sources the way lint wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup  ## everything in figures, beside redis-server and fakeredis: writes docs/benchmarks.md, some 20 minutes
	$(BIN)/python -m bench

bench-quick: setup  ## one line a workload, in two minutes; fails where a ratio to redis-server is below its floor
	$(BIN)/python -m bench quick

docs: setup  ## docs/commands.md and docs/compatibility.md, from the table of commands; the blocks of translated pages
	$(BIN)/python -m headrace.commands.documentation.reference > docs/commands.md
	$(BIN)/python -m headrace.commands.documentation.compatibility > docs/compatibility.md
	$(BIN)/python tools/copy_blocks.py

demo: setup  ## devices, a server, workers and Spark, with two kills on the way: about two minutes
	$(BIN)/headrace demo

dist: setup  ## the wheel, tagged for manylinux, and the sdist; both tried in empty environments
	rm -rf dist build/dist build/lib* build/bdist*
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dist
	$(BIN)/python -m build --no-isolation --sdist --wheel --outdir build/dist .
	$(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl
	cp build/dist/*.tar.gz dist
	$(PYTHON) tools/try_wheel.py dist/*.whl dist/*.tar.gz

clean:  ## forget everything that was built
	rm -rf $(VENV) build dist src/*.egg-info
	find src -name '*.so' -delete
