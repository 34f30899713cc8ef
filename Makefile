# Each target makes its own environment first, once; nothing has to be installed by hand but Python 3.11 to 3.13.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# One thread a test process: two processes share the two cores of a small machine.
# -ra names every failed and skipped test and why, so that a missing browser or dataset is said plainly.
TESTS  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -ra

.PHONY: demo test test-long check lint types format bench zoo clean help

help:
	@echo "make demo    train and attack on embedded data, write a report"
	@echo "make test    run all tests"
	@echo "make test-long  all tests, with every fault and 100,000 generated inputs: an hour or more"
	@echo "make check   format, lint, types and tests"
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

# pytorchcv is only a source of networks for tests; its declared need of torchvision has no CPU build to rely on.
$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing the test tools (once) ..."
	@$(PIP) install -c constraints.txt -e '.[dev,tensorboard,slurm]'
	@$(PIP) install -c constraints.txt --no-deps pytorchcv
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

format: $(VENV)/.dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	@$(BIN)/holdfast bench

# Index, model cards and packaged weights from the committed run directories.
zoo: $(VENV)/.runtime
	@$(BIN)/python -m holdfast.zoo.build results

clean:
	@echo "removing the environment and all caches ..."
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
