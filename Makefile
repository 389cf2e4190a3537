.DEFAULT_GOAL := help
.PHONY: help setup arms demo plan gpu image-miniature image-vllm-cpu test check bench bench-peer truth faults fuzz \
	schema clean
PYTHON ?= python3
EXPERIMENT ?= three-arm
GPU_PROFILE ?= vllm-cuda-tiny-hybrid
BIN := .venv/bin

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: .venv/.installed  ## Make .venv with the command vllm-arms

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("vllm-arms needs Python 3.11 or newer; try make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# `pip install --group` came with pip 25.1.
.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

arms: .venv/.installed  ## Set everything up and run the three arms; PROFILE=NAME for another server
	$(BIN)/vllm-arms run $(EXPERIMENT) $(if $(PROFILE),--profile $(PROFILE))

demo: .venv/.installed  ## The three arms in seconds on the miniature, which is not vLLM
	$(BIN)/vllm-arms run three-arm --profile miniature

plan: .venv/.installed  ## Show what `make arms` would do, and start nothing
	$(BIN)/vllm-arms plan $(EXPERIMENT) $(if $(PROFILE),--profile $(PROFILE))

# What has not been run on a GPU yet, in order of worth (docs/gpu.md). A run that ends with another
# code than 0 (1: affected, 3: inconclusive) does not keep the next one from starting.
gpu: .venv/.installed  ## On a GPU machine: run what has not been run there yet; GPU_PROFILE=NAME for another server
	$(BIN)/vllm-arms prepare --profile $(GPU_PROFILE)
	$(BIN)/vllm-arms doctor --experiment workarounds --profile $(GPU_PROFILE)
	-$(BIN)/vllm-arms run no-speculation --profile $(GPU_PROFILE)
	-$(BIN)/vllm-arms run workarounds --profile $(GPU_PROFILE)
	-$(BIN)/vllm-arms run memory-pressure --profile $(GPU_PROFILE)
	-$(BIN)/vllm-arms run chunk-length --profile $(GPU_PROFILE)
	-$(BIN)/vllm-arms run three-arm --profile vllm-cuda-agreeing-drafts

image-miniature: .venv/.installed  ## Build the miniature's container image; ENGINE_IMAGE=NAME for another base
	$(BIN)/vllm-arms build-image miniature

image-vllm-cpu: .venv/.installed  ## Build the container image of vLLM for CPU from the prepared engine
	$(BIN)/vllm-arms build-image vllm-cpu

test: .venv/.installed-dev  ## Set everything up and run the tests, a real vLLM included
	$(BIN)/pytest

check: .venv/.installed-dev  ## Formatting, lint, types, layers, docstrings of tests, advisories
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/interrogate --quiet tests
	$(BIN)/python -m tests.advisories

bench: .venv/.installed-dev  ## Print what measuring costs, on both runtimes and the real vLLM; JSON=FILE writes it too
	$(BIN)/python -m tests.bench $(if $(JSON),--json $(JSON))

bench-peer: .venv/.installed-dev  ## Set vllm bench sweep serve beside this, on one real vLLM; ten minutes; writes docs/peer.md
	$(BIN)/python -m tests.peer.report --json tests/peer/recorded.json

truth: .venv/.installed-dev  ## Hold the judge against known truth, with and without each rule; writes docs/truth.md
	$(BIN)/python -m tests.truth.report

fuzz: .venv/.installed-dev  ## Look for bytes of a server that break us; a minute for each of four targets
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python -m tests.fuzz

faults: .venv/.installed-dev  ## Put every fault to every stage of a run, on both runtimes; writes docs/faults.md
	$(BIN)/python -m tests.faults.report

schema: .venv/.installed-dev  ## Write the JSON Schema of verdicts.json anew
	$(BIN)/python -m orchestrator.reporting.schema docs/schemas/verdicts-1.json

clean:  ## Remove .venv; prepared engines stay in the cache folder
	rm -rf .venv
