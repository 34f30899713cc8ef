# Each target makes its own environment first, once; nothing has to be installed by hand but Python 3.11 to 3.13.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One thread a test process: two processes share the two cores of a small machine.
# -ra names every failed and skipped test and why, so that a missing browser or dataset is said plainly.
TESTS  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -ra

.PHONY: demo test test-long check lint types format docs dist bench zoo clean help

help:
	@echo "make demo    attack trained networks, train five on digits, write a report"
	@echo "make test    run all tests"
	@echo "make test-long  all tests, with every fault and 100,000 generated inputs: an hour or more"
	@echo "make check   format, lint, types and tests"
	@echo "make docs    build the documentation into build/site"
	@echo "make dist    build sdist and wheel, and try the wheel in an environment of its own"
	@echo "make bench   measure speed against the peers"
	@echo "make zoo     remake the index and the model cards of the trained networks from results/"
	@echo "make clean   remove the environment and everything made here"

# pip is told the exact version of every package. torch comes first: other packages ask for any version of it, and the
# newest may bring gigabytes of GPU libraries.
$(VENV)/.runtime: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt torch==2.13.0
	@$(PIP) install -c constraints.txt -e .
	@touch $@

# pytorchcv and facenet-pytorch are only sources of networks for tests; their declared need of torchvision has no CPU
# build to rely on, and the second asks for old versions of everything. The packages in $(VENV)/outside are oracles of
# the tests, which alone look there: where torchvision's operators do not load, transformers must not find it.
$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the test tools (once) ..."
	@$(PIP) install -c constraints.txt -e '.[dev,tensorboard,slurm]'
	@$(PIP) install -c constraints.txt --no-deps pytorchcv facenet-pytorch==2.6.0
	@$(PIP) install -c constraints.txt --no-deps --upgrade --target $(VENV)/outside \
		torchvision timm grad-cam quantus ttach cachetools opencv-python-headless
	@touch $@

demo: $(VENV)/.runtime
	@$(BIN)/holdfast demo

test: $(VENV)/.dev
	@echo "running the tests ..."
	@$(TESTS)

# The same tests, but those about faults, bad input and load go to their full length.
test-long: $(VENV)/.dev
	@echo "running the tests in their long form ..."
	@HOLDFAST_LONG=1 $(TESTS) --timeout 7200

lint: $(VENV)/.dev
	@echo "checking format and lint ..."
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: $(VENV)/.dev
	@echo "checking types ..."
	@$(BIN)/mypy

check: lint types test

$(VENV)/.docs: $(VENV)/.dev
	@echo "installing the documentation tools (once) ..."
	@$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

# The site, with every code cell of the tutorials run; warnings are errors. The tests check its links and its names.
docs: $(VENV)/.docs
	@echo "building the documentation into build/site ..."
	@mkdir -p build
	@OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs/site build/site 2> build/site.log \
		|| { cat build/site.log; exit 1; }
	@HOLDFAST_SITE=build/site $(TESTS) -n 0 tests/site/test_site.py tests/site/test_parts.py
	@echo "open build/site/index.html"

format: $(VENV)/.dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

$(VENV)/.dist: $(VENV)/.runtime
	@$(PIP) install -c constraints.txt build setuptools
	@touch $@

# The weights that a release offers for download (stops if the zoo in the package is not up to date: make zoo), the
# sdist, and the wheel made from it; then the wheel is tried.
dist: $(VENV)/.dist
	@echo "building sdist and wheel into dist ..."
	@rm -rf dist
	@$(BIN)/python -m holdfast.zoo.build results --assets dist/zoo > /dev/null
	@$(BIN)/python -m build --no-isolation --outdir dist . > dist.log 2>&1 || { cat dist.log; exit 1; }
	@rm -f dist.log
	@PYTHON=$(PYTHON) .ci/try-wheel dist/holdfast-*.whl
	@ls -l dist dist/zoo

bench: $(VENV)/.dev
	@$(BIN)/holdfast bench

# Index, model cards and packaged weights from the committed run directories.
zoo: $(VENV)/.runtime
	@$(BIN)/python -m holdfast.zoo.build results

clean:
	@echo "removing the environment and all caches ..."
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
	@rm -rf docs/site/reference docs/site/project docs/site/zoo
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
