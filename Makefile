# The same commands everywhere, the build machine included.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test lint bench clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

run: $(READY)
	@test -n "$(PROJECT)" || { echo 'Usage: make run PROJECT=<dir>' >&2; exit 2; }
	$(BIN)/hermes-checkpoints watch add "$(PROJECT)"
	$(BIN)/hermes-checkpoints serve

test: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

bench: $(READY)
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache
