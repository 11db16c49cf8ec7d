# `make` alone lists the targets. Nothing is installed outside $(VENV), but for the servers of `make test`.
#
#   make test PYTHON=python3.13 VENV=.venv-3.13     another interpreter, beside the first
#   make test PYTEST_ARGS="-k layers -x" JOBS=1     some tests, one at a time

PYTHON ?= python3
VENV   ?= .venv

# Tests at a time. Most of them wait for a server or for the end of a lease, so more than there are
# processors, but not so many that servers miss the end of a short lease: fewer of the slow ones, of
# which many are processes. A worker that has finished takes tests from the others, so that all end together.
CORES     := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
ifdef JOBS
SLOW_JOBS ?= $(JOBS)
endif
JOBS      ?= $(shell echo $$(($(CORES) < 3 ? 3 * $(CORES) : 8)))
SLOW_JOBS ?= $(shell echo $$(($(CORES) < 4 ? 2 * $(CORES) : 8)))

PY  := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# The folders that hold Python, of those that exist: a checker stops at a missing one.
CODE := $(wildcard src tests bench examples website)

# pyright's wheel carries the checker itself: use that version, never fetch another, never nag.
export PYRIGHT_PYTHON_FORCE_VERSION := $(shell sed -n 's/^pyright==\([0-9.]*\).*/\1/p' requirements/dev.txt 2>/dev/null)
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# Often set in containers; it would compile the package again at every start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:
.PHONY: help run lab docs site servers test test-all torture check format bench build lock clean


help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

run: $(VENV)/.package  ## run the demo; UNSAFE=1 takes the fence away
	$(PY) -m fencelock.demo $(if $(UNSAFE),--unsafe)

lab: $(VENV)/.dev  ## open the lab: freeze processes, cut networks, and see what the lock does
	$(PY) -m fencelock lab

docs: $(VENV)/.dev  ## play the scenarios in docs/lab again, and take the picture of the README
	$(PY) -m tests.lab.documents

site: $(VENV)/.dev $(VENV)-site/.made  ## build the documentation site, with the lab in the browser, into build/site; needs npm
	$(PY) -m website.build --generator $(VENV)-site/bin/mkdocs

test: $(VENV)/.dev servers  ## run the tests; PYTEST_ARGS="..." is passed on, JOBS=1 runs one at a time
	$(PY) -m tests.run -rs -n $(JOBS) --dist worksteal -m "not slow" $(if $(AGAIN),--again) $(PYTEST_ARGS)

test-all: test  ## run the slow and rare ones as well: see tests/slow.py
	$(PY) -m tests.run -rs -n $(SLOW_JOBS) --dist worksteal -m slow $(if $(AGAIN),--again) $(PYTEST_ARGS)

torture: $(VENV)/.dev servers  ## the long tests, some ten minutes: storms, and tortures of every engine
	$(PY) -m tests.judge_torture.marathon --jobs $(JOBS) $(TORTURE_ARGS)

servers:  ## install the servers that the tests start (Debian packages; root, or sudo)
	@PYTHON="$(PYTHON)" tests/servers/install.sh

check: $(VENV)/.dev  ## check format, lint and types
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m ruff check $(CODE)
	$(PY) -m mypy $(CODE)
	$(PY) -m pyright --pythonpath $(PY) $(CODE)

format: $(VENV)/.dev  ## format the code and repair what the linter can
	$(PY) -m ruff check --fix-only $(CODE)
	$(PY) -m ruff format $(CODE)

bench: $(VENV)/.bench  ## measure beside the peers; BENCH_ARGS="..." is passed on
	$(PY) -m bench $(BENCH_ARGS)

build: $(VENV)/.build  ## build the wheel and the source archive into dist/
	rm -rf dist
	$(PY) -m hatchling build

clean:  ## remove whatever the other targets made
	rm -rf $(VENV) $(VENV)-lock $(VENV)-site build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +


# The environment grows in steps, each with a stamp: made once, and again when what it was made from changes.

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'fencelock needs Python 3.11 or newer; name one: make PYTHON=python3.13 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo '$(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.build: $(VENV)/.made requirements/build.txt
	$(PIP) install --require-hashes -r requirements/build.txt
	@touch $@

$(VENV)/.package: $(VENV)/.build pyproject.toml
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.package requirements/dev.txt
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.dev $(wildcard requirements/bench.txt)
	$(if $(wildcard requirements/bench.txt),$(PIP) install --require-hashes -r requirements/bench.txt)
	@touch $@

# The generator of the site has an environment of its own: nothing else needs what it needs.
$(VENV)-site/.made: requirements/site.txt
	$(PYTHON) -m venv --clear $(VENV)-site
	$(VENV)-site/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/site.txt
	@touch $@


# One lock for every supported Python and platform, which pip alone cannot resolve: hence uv, in an
# environment of its own because nothing else needs it.
UV_VERSION := 0.13.7
LOCK = $(VENV)-lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 \
       --generate-hashes --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

lock: $(VENV)-lock/bin/uv  ## pin requirements/*.in with hashes; UPGRADE=1 takes the newest versions
	$(LOCK) requirements/build.in --output-file requirements/build.txt
	$(LOCK) requirements/dev.in --output-file requirements/dev.txt
	$(LOCK) requirements/bench.in --output-file requirements/bench.txt
	$(LOCK) requirements/site.in --output-file requirements/site.txt

$(VENV)-lock/bin/uv:
	$(PYTHON) -m venv --clear $(VENV)-lock
	$(VENV)-lock/bin/python -m pip --disable-pip-version-check --quiet install uv==$(UV_VERSION)
