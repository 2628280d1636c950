# A fresh machine needs python3 (3.11 or newer) and make; every target makes the environment it runs in.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help env demo test golden test-lowest test-newest lint test-browser test-interop test-promises notebooks docs fuzz coverage bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

$(VENV)/ready-test: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "geotfr needs Python 3.11 or newer; found " + sys.version.split()[0] + "; give another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

$(VENV)/ready-interop: $(VENV)/ready-test
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,tf,torch,dask,xarray,cloud]' 'moto[server]' duckdb earthengine-api grain onnx onnxruntime pytorch-lightning ray torchdata
	@touch $@

$(VENV)/ready-notebooks: $(VENV)/ready-interop
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,tf,torch,notebooks]'
	@touch $@

$(VENV)/ready-docs: $(VENV)/ready-test
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,docs]'
	@touch $@

env: $(VENV)/ready-test  ## only make the environment, .venv, with the package editable and the test extra

demo: env  ## make a scene, export, predict, ingest, compare with the source, draw a picture
	$(BIN)/python examples/demo.py demo-output

lint: env  ## formatter, linter and type checker
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

test: env lint  ## linter, types, and all tests but interoperability and the slow ones
	$(BIN)/pytest -m 'not interop and not slow' --ignore tests/interop --numprocesses auto --quiet

golden: env  ## the golden corpus alone: the bytes of every file that 60 command lines write
	$(BIN)/pytest --quiet tests/golden

# What breaks first with older libraries: messages of the command line, exports, ingests, tables, records.
LOWEST_SHARE := tests/project tests/mixer tests/export/test_earth_engine.py tests/ingest/test_bad_ingest.py \
  tests/ingest/test_upload_manifest.py tests/rasters/test_crs.py tests/records_reading/test_container.py \
  tests/records_reading/test_features.py tests/tables/test_expression.py tests/tables/test_ingest_table.py tests/writing

.venv-lowest/ready: pyproject.toml tests/project/lowest.py
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/project/lowest.py test > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable '.[test]'
	@touch $@

test-lowest: .venv-lowest/ready  ## tests with the lowest versions that pyproject.toml allows, a quick share; SHARE='tests geotfr' for all
	.venv-lowest/bin/python -m pytest -m 'not interop and not slow' --numprocesses auto --quiet $(or $(SHARE),$(LOWEST_SHARE))

test-newest:  ## all quick tests with the newest versions that there are, whatever constraints.txt says
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	.venv-newest/bin/python -m pytest -m 'not interop and not slow' --numprocesses auto --quiet $(SHARE)

test-interop: $(VENV)/ready-interop  ## tests against TensorFlow, PyTorch, Lightning, xarray, Grain, Ray, ONNX and Earth Engine's client, on dask, and with an S3 server
# A process a file: TensorFlow may crash in one that PyTorch was loaded into. Exit code 5: all of a file is skipped.
	@ls -d tests/interop/test_*.py tests/interop/cloud | TF_CPP_MIN_LOG_LEVEL=3 xargs -P 2 -n 1 \
	  sh -c '$(BIN)/pytest -m interop --quiet "$$0" || [ $$? -eq 5 ]'

notebooks: $(VENV)/ready-notebooks  ## run the example notebooks from top to bottom, small
	$(BIN)/pytest -m interop --numprocesses auto --quiet tests/notebooks

docs: $(VENV)/ready-docs  ## build the site, strict, into site/; open site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/ready-interop  ## ratios against the typical scripts; see benchmarks/README.md
	for name in export ingest sequence sources read stream parse tables patch_table cluster scale; do TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python benchmarks/$$name.py; done

test-promises: env  ## kill, fail, race, signal and attack: the whole of what docs/explanations/reliability.md promises
	$(BIN)/pytest tests/promises tests/executors tests/parts --numprocesses auto --quiet

test-browser: env  ## the page that compares two rasters in a headless Chromium, where there is /usr/bin/chromium
	$(BIN)/pytest -m slow --quiet tests/preview

COVERING := tests/records_reading tests/parsing tests/writing tests/mixer tests/storage tests/integrity tests/cases \
  tests/parts tests/datasets/test_patch_dataset.py tests/datasets/test_scatter.py tests/datasets/test_stream.py \
  tests/catalog/test_patch_table.py \
  tests/export/test_manifest_and_names.py tests/export_options/test_kinds.py tests/export_options/test_sequences.py \
  tests/ingest/test_sets.py tests/tables/test_export_table.py tests/promises/test_resume.py \
  geotfr/records geotfr/mixer geotfr/storage

coverage: env  ## coverage of records, mixer and storage by the quick tests that use them; fails below 95 % of the branches
	$(BIN)/coverage run -m pytest -m 'not interop and not slow' --quiet $(COVERING)
	$(BIN)/coverage report
	$(BIN)/coverage json --quiet --fail-under=0 -o - | $(BIN)/python tests/project/branches.py 95

fuzz: env  ## fuzz all that reads foreign bytes, a minute for each of ten targets; SECONDS=600 for longer
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	$(BIN)/python fuzz/run.py all $(or $(SECONDS),60)

clean:  ## remove the environment and what the targets made
	rm -rf $(VENV) .venv-lowest .venv-newest demo-output site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
