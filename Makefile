# Two commands do everything: `make report` and `make test`. Both set the project up first, once.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.set-up
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Some machines forbid Python to keep what it has compiled; tests start a hundred programs.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup frameworks report docs test test-quick test-slow lint bench gold lock clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMP)  ## make .venv with the pinned dependencies and neft itself

# The stamp is written last, so a set-up that was interrupted is taken up again.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "neft needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@echo "setting up $(VENV) (once; about a minute)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes --only-binary :all: -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# PyTorch and Flax are no dependencies: only the tests of `neft.read` want them. What neft needs is taken from .venv.
FRAMEWORKS := .venv-frameworks
frameworks: setup  ## make .venv-frameworks with PyTorch and Flax beside it
	@$(BIN)/python -m venv --without-pip $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/python -c 'import site, sys; open(site.getsitepackages()[0] + "/neft.pth", "w").write(f"import site; site.addsitedir({sys.argv[1]!r})\n")' \
	  "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')"
	@$(PIP) --python $(FRAMEWORKS)/bin/python install --no-compile --only-binary :all: torch==2.13.0 flax==0.12.8

report: setup  ## write report.html, and claims.html beside it
	@$(BIN)/neft claims --kept --quiet --out claims.html
	@$(BIN)/neft report --out report.html

docs: setup  ## build the documentation in docs/_build/html, warnings being errors
	$(BIN)/python -m sphinx -W --keep-going --quiet --builder html docs docs/_build/html

# The type checker uses one core, and not all of it: it runs beside the tests.
test: setup  ## lint, type check and the quick tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint test-quick

test-quick: setup
	$(BIN)/python -m pytest tests -m "not slow" -n 2 --dist loadfile --durations 15

# Simulations, which most of them are, take five times as long where the compiler is asked for nothing (conftest.py).
# Every function is held to its annotations here: in the quick tests, where that takes a seventh of the time, callers of
# the public ones are.
test-slow: setup  ## the tests that take minutes
	NEFT_XLA_LEVEL=1 $(BIN)/python -m pytest -m slow -n 2 --dist loadgroup --durations 15 \
	  --jaxtyping-packages=neft,helpers.typechecker

lint: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --level error

bench: setup  ## print the ratios this project promises
	@$(BIN)/python benchmarks/run.py

gold: setup  ## make tests/gold.json again in 50-digit arithmetic (minutes)
	$(BIN)/python tools/make_gold.py

# Needs uv. Releases younger than a month stay out: they have not been tried by enough people.
lock:  ## resolve the pins again (UNTIL=YYYY-MM-DD)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --no-annotate --exclude-newer $(UNTIL) --group dev --group docs pyproject.toml -o requirements.lock

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(FRAMEWORKS) report.html claims.html docs/_build docs/api .pytest_cache .ruff_cache .hypothesis
