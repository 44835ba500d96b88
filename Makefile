# `make demo` and `make test` do all the set-up: a virtual environment, the wheel, its tools.
# Needed on the machine: python3 (3.11 or newer), pip, make, g++. cmake and ninja come from PyPI when absent.
PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
# Each process has half of the tests, in order; who is done first takes from the other, also where that one hangs.
PYTEST_FLAGS ?= -n 2 --dist worksteal
# Of `make fuzz`: how long, in how many processes, and other words for it (python -m tools.fuzz --help).
MINUTES ?= 10
FUZZ_JOBS ?= 2
FUZZ_FLAGS ?= --database .hypothesis/fuzz
# Of `make mutants`: how many faults, drawn from which seed, new every day, and other options of it
# (python -m tools.mutants --help).
COUNT ?= 20
SEED ?= $(shell date +%Y%m%d)
MUTANTS_FLAGS ?=

# Of `make values`: other options of it (python -m tools.values --help).
VALUES_FLAGS ?=

# Of `make changed`.
CHANGED_TESTS := tests/cli/test_changed_files.py tests/cli/test_changed_commands.py tests/docs/test_docstrings.py

# Of `make check`.
CHECK_TESTS ?= tests/verification tests/cli/test_transcripts.py tests/property

# Of `make lowest`: something of every dependency.
LOWEST_TESTS ?= $(addprefix tests/, cli/test_cli_commands.py formats/chakra/test_chakra.py \
  formats/msccl/test_msccl_xml.py planning/test_workers.py runtime/test_runtime_data.py \
  runtime/torch/test_torch_entry_point.py schedules/plan_files/test_plan_files.py \
  simulation/test_simulation_reports.py synthesis/alltoall/baselines/test_alltoall_baselines_ilp.py synthesis/alltoall/rate/test_alltoall_exact.py \
  synthesis/steps/exact/test_exact_process.py synthesis/test_parallel.py topologies/readers/test_broken_texts.py topologies/test_isomorphism.py)

# Of `make release`: what every wheel passes with every CPython, with no extra installed.
RELEASE_TESTS ?= $(addprefix tests/, cli/test_cli_commands.py formats/msccl/test_msccl_xml.py formats/test_every_format.py \
  runtime/test_runtime_data.py schedules synthesis/alltoall/rate simulation/test_simulation_reports.py test_core_stub.py test_arrays.py \
  topologies/readers/test_broken_texts.py topologies/test_isomorphism.py)
# other words for it (python -m tools.release --help)
RELEASE_FLAGS ?=

# the loop of the oldest dask does not start now and then where an address is wrong at once
LOWEST_FLAGS ?= -k "not wrong_addresses"

PY := $(VENV)/bin/python
TREADLE := $(VENV)/bin/treadle
SOURCES := $(shell find src -type f ! -name '*.pyc' ! -name '*.so') CMakeLists.txt pyproject.toml README.md LICENSE $(wildcard licenses/*)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# what is compiled is kept, whatever the caller's shell says: tests and commands start again and again
export PYTHONDONTWRITEBYTECODE :=
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1

.PHONY: install wheel release demo debian check test slow test-all lint types compiled-tests size lowest fuzz sanitize gpu gpu-check races lanes transcripts changed values mutants mutants-map bench docs clean

install: $(VENV)/.installed

wheel: dist/.built

# --without-pip works where Debian's python3-venv is not installed; a current pip then comes from PyPI.
$(VENV)/.created:
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(PY) install --quiet "pip>=25.1"
	touch $@

dist/.built: $(SOURCES) $(VENV)/.created
	rm -rf dist
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

$(VENV)/.installed: dist/.built
	$(PY) -m pip install --quiet "$$(echo dist/treadle-*.whl)"
	$(PY) -m pip install --quiet --no-deps --force-reinstall dist/treadle-*.whl
	touch $@

# All dependencies and all extras. This needs no wheel: `make -j2 test` builds the wheel meanwhile.
$(VENV)/.test-packages: $(VENV)/.created pyproject.toml
	$(PY) -m pip install --quiet --group test --group docs $$($(PY) -c 'import itertools, tomllib; \
	  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values()))')
	touch $@

$(VENV)/.test-tools: dist/.built $(VENV)/.test-packages
	$(PY) -m pip install --quiet --no-deps --force-reinstall dist/treadle-*.whl
	$(PY) -m pip check
	touch $@

demo: $(VENV)/.installed
	mkdir -p $(DEMO)
	$(TREADLE) solve dgx_a100:2 allgather -o $(DEMO)/allgather.plan
	$(TREADLE) verify $(DEMO)/allgather.plan --topology dgx_a100:2
	$(TREADLE) run $(DEMO)/allgather.plan --size 1K..4M
	$(TREADLE) lower $(DEMO)/allgather.plan --to msccl-xml -o $(DEMO)/allgather.xml
	$(TREADLE) solve dgx_a100:2 allreduce -o $(DEMO)/allreduce.plan
	$(TREADLE) verify $(DEMO)/allreduce.plan --topology dgx_a100:2
	$(TREADLE) run $(DEMO)/allreduce.plan --size 1K..4M
	$(TREADLE) lower $(DEMO)/allreduce.plan --to msccl-xml -o $(DEMO)/allreduce.xml
	@echo "Plans and XML are in $(DEMO)/."

lint: $(VENV)/.test-tools
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/.test-tools
	$(VENV)/bin/mypy

# Every test module compiled once, while the types are checked, instead of in each of the tests' processes. What
# is said, the names of all tests, is shown only if that fails.
compiled-tests: $(VENV)/.test-tools
	@said="$$($(PY) -m pytest --collect-only -qq -p no:xdist 2>&1)" || { echo "$$said" | tail -n 60; exit 1; }

# What only Debian packages: SimGrid, the simulator's outside referee, libfabric, and a browser for pages. Without root their
# tests are skipped, visibly.
debian:
	@wanted="$$(command -v smpirun >/dev/null || echo libsimgrid-dev) $$(command -v chromium >/dev/null || echo chromium)"; \
	test -e /usr/include/rdma/fabric.h || wanted="$$wanted libfabric-dev"; \
	if [ -z "$$(echo $$wanted)" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get install -y -qq --no-install-recommends $$wanted || \
	    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $$wanted; }; } \
	  >/dev/null 2>&1 || echo "$$wanted could not be installed; their tests will be skipped"; \
	else echo "Not installed: Debian's $$wanted; their tests will be skipped"; fi

# The compiled core next to the sources, built anew only where the sources of the core changed.
$(VENV)/.core: CMakeLists.txt $(shell find src/core -type f) $(VENV)/.test-packages
	$(MAKE) $(VENV)/.test-tools
	cp $$($(PY) -P -c 'import treadle._core as core; print(core.__file__)') src/treadle/
	touch $@

# A minute, on the sources as they are: lint, types, verifiers, and what every command prints.
check: $(VENV)/.core
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=src $(PY) -m pytest $(PYTEST_FLAGS) $(CHECK_TESTS)

# What takes at most a second a test; tests/slow_tests.txt lists the others.
test: lint types compiled-tests
	$(PY) -m pytest $(PYTEST_FLAGS) -m "not slow"

slow: debian $(VENV)/.test-tools
	$(PY) -m pytest $(PYTEST_FLAGS) -m slow

test-all: test slow docs lowest
	$(MAKE) fuzz MINUTES=1 FUZZ_FLAGS="--seed commit --against-parent"

# Code lines by package, and in all; budget.toml limits them.
size:
	@$(PYTHON) tools/size.py

# The lowest versions that pyproject.toml allows, beside the wheel, and tests of whatever uses them. Old packages
# warn of each other. Wheels of such age are for Python 3.11.
lowest: dist/.built
	$(PY) -m venv --clear --without-pip $(VENV)-lowest
	$(PY) -m pip --python $(VENV)-lowest/bin/python install --quiet dist/treadle-*.whl $$($(PY) -m tools.lowest)
	TREADLE_REQUIRED_ENGINES="MPI CP-SAT Chakra bfloat16 matplotlib torch" \
	  $(VENV)-lowest/bin/python -m pytest $(PYTEST_FLAGS) -o filterwarnings=default $(LOWEST_FLAGS) $(LOWEST_TESTS)

# Wheels, sdist, bill of materials and checksums of the last commit, built twice and tried, in release/.
release:
	$(PYTHON) -m venv --clear --without-pip $(VENV)-release
	$(PYTHON) -m pip --python $(VENV)-release/bin/python install --quiet "pip>=25.3"
	$(VENV)-release/bin/python -m pip install --quiet --group release
	$(VENV)-release/bin/python -m tools.release $(RELEASE_FLAGS) $(RELEASE_TESTS)

# Random and hostile input until the time is up; what is found is kept in tests/tools/fuzz_examples.
fuzz: $(VENV)/.test-tools
	$(PY) -m tools.fuzz --minutes $(MINUTES) --jobs $(FUZZ_JOBS) $(FUZZ_FLAGS)

# The compiled core with sanitizers; not part of CI, since it takes longer than all tests.
sanitize: $(VENV)/.test-tools
	$(PY) -m tools.sanitize

# The lanes of thread blocks compiled for threads and, where nvcc is, for GPUs: registers and spills of every kernel.
gpu: $(VENV)/.test-tools
	$(PY) -m tools.gpu

# What a GPU must show of them: a visible skip where there is none. OUT takes its tables as markdown.
gpu-check: $(VENV)/.test-tools
	$(PY) -m tools.gpu_check $(if $(OUT),--out $(OUT))

# The same as threads under ThreadSanitizer; a few minutes.
races: $(VENV)/.test-tools
	$(PY) -m tools.lane_races

# Plans of every scheduler as such lanes, every byte checked; a quarter of an hour.
lanes: $(VENV)/.test-tools
	$(PY) -m tools.lane_universe

# What commands print, kept as texts that are read as diffs.
transcripts: $(VENV)/.test-tools
	$(PY) -m tools.transcripts tests/golden/transcripts/*.txt

# Results of random changes to files, commands and arguments of examples; the tests compare them word by word.
changed: $(VENV)/.test-tools
	@folder="$$(mktemp -d)" && WRITE_CHANGED="$$folder" $(PY) -m pytest -q -W ignore -k "changed or example" $(CHANGED_TESTS) \
	  && cp "$$folder"/*.json tests/golden/

# Exact values, heights, times, plans and, with VALUES_FLAGS=--cpu, speed of 260 commands, compared with those recorded.
values: $(VENV)/.test-tools
	$(PY) -m tools.values compare $(VALUES_FLAGS)

# Which tests run which blocks of code, and faults planted in these one at a time; see docs/contributing.md.
mutants-map: $(VENV)/.test-tools
	$(PY) -m tools.mutants --map tests

mutants: $(VENV)/.test-tools
	$(PY) -m tools.mutants --count $(COUNT) --seed $(SEED) $(MUTANTS_FLAGS)

# The site, from pages, docstrings and commands: build/site/index.html, which works from file://. Warnings fail, and
# so does an address of elsewhere in a page.
SPHINX := -m sphinx -W --keep-going -n -q -d build/docs/doctrees docs build/site
docs: $(VENV)/.test-tools
	$(PY) $(SPHINX)
	$(PY) -m tools.site_check build/site

bench: $(VENV)/.test-tools
	$(PY) benchmarks/forestcoll.py
	$(TREADLE) reproduce figure-4.14 --full

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-release build dist release demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
