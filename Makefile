# Two commands do everything on a machine with Python (>= 3.11) and make:
#   make demo    both packages' defaults on breast cancer, a chain beside CRFsuite, two passes beside SGD: 15 seconds
#   make test    lint, types, import contract and tests
# Both create .venv and install the project into it first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: ablate demo test test-torch coverage test-lowest fuzz dist lint format bench house hops golden docs look figures reproduction clean

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "majorant needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: .venv/ready
	mkdir -p out
	OMP_NUM_THREADS=1 $(BIN)/python -m examples.demo out/demo.png

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.docstrings

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What takes tensors, on a GPU where there is one; PyTorch is not among what the other tests need.
test-torch: .venv/ready
	$(BIN)/python -c 'import torch' || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[torch]'
	$(BIN)/python -m pytest tests/device/test_tensors.py

# What every mechanism of solver="auto" is worth: a few minutes on one core.
ablate: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.ablate

# How much of the package the tests reach: watching costs a third. Python 3.12 and later can be watched at less.
CORE = $(shell $(BIN)/python -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")')
coverage: .venv/ready
	COVERAGE_CORE=$(CORE) $(BIN)/python -m pytest -n 2 --dist worksteal --cov

# The tests with the oldest versions of dependencies that pyproject.toml allows.
# What Numba keeps is kept apart: its versions overwrite what others have kept. Old packages call what newer ones that
# they need have deprecated since.
test-lowest: .venv-lowest/ready
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/numba .venv-lowest/bin/python -m pytest -n 2 --dist worksteal -W ignore::DeprecationWarning

.venv-lowest/ready: pyproject.toml tests/lowest_versions.py
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) -m tests.lowest_versions pyproject.toml > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/lowest.txt \
		--editable '.[cli,files,frames,plot]' hypothesis polars pytest pytest-xdist python-crfsuite pyyaml 'readme-renderer[md]'
	touch $@

# Random problems for SECONDS, from SEED if it is set; exits with 1 if any goes wrong.
SECONDS ?= 600
SEED ?=
fuzz: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz_certificates
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz_units
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz_estimators
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# A wheel and a source distribution as they would be uploaded: what they hold, and whether the wheel works where nothing
# but it is installed, and has types that a user's type checker sees.
CLEAN := out/dist-venv
dist: .venv/ready
	$(BIN)/python -c 'import build, twine' || $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	rm -rf dist $(CLEAN) out/dist-test
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.release_contents dist
	$(PYTHON) -m venv $(CLEAN)
	$(CLEAN)/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[cli]"
	mkdir -p out/dist-test && cp tests/installed_package.py tests/typed_user.py out/dist-test
	cd out/dist-test && env -u PYTHONPATH ../dist-venv/bin/python installed_package.py
	cd out/dist-test && env -u PYTHONPATH ../../$(BIN)/mypy --strict --python-executable ../dist-venv/bin/python \
		--cache-dir .mypy_cache typed_user.py

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All numbers of docs/benchmarks.md; MAJORANT_DATA has to name the data. About three hours.
bench: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	mkdir -p out
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.core --json out/core.json
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.stochastic --json out/stochastic.json
	for setting in "" --standardised --free "--free --standardised"; do \
		OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.logistic $$setting --limit 60; done
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.shapes --seed 58 --shapes 60 --plot docs/figures/shapes.png
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.sweep --json out/sweep.json
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.robustness
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.chain --json out/chain.json --plot out/chain.png
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.chain_sizes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.latent --json out/latent.json

# Fits that a change of the code alone leaves as they are, to the bit: tests/golden.json has them.
golden: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.golden

# What there is to read, by folders, and the way of six fits through it: functions, calls, frames at a product with X.
house: .venv/ready
	$(BIN)/python -m benchmarks.house --folders

hops: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.hops

# docs/reproduction, from whatever data sets are there. About half an hour.
reproduction: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/majorant reproduce all --tune --out docs/reproduction
	OMP_NUM_THREADS=1 $(BIN)/majorant reproduce latent --runs 5 --out docs/reproduction
	$(BIN)/python -c 'from reproduction.report import errata_page; print(errata_page(), end="")' > docs/errata.md

# The site, into docs/_build/html: examples are run, warnings are errors, nothing is fetched. Under ten minutes.
docs: .venv/docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

# Every page in a browser, wide and narrow, light and dark: links, images, what the console says. Needs Chromium.
look: docs
	$(BIN)/python -c 'import playwright' || $(BIN)/python -m pip install --quiet --disable-pip-version-check playwright
	$(BIN)/python docs/look.py docs/_build/html out/look

# The pictures of the site, from its tables and from fits of a minute; that of generated shapes is drawn by `make bench`.
figures: .venv/ready
	$(BIN)/python -m examples.bound_figure docs/figures/bound.png
	$(BIN)/python -m examples.benchmark_figures docs/figures
	$(BIN)/python -m examples.solver_figure docs/figures/solvers.png
	OMP_NUM_THREADS=1 $(BIN)/python -m examples.latent_figure docs/figures/latent.png

clean:
	rm -rf .venv .venv-lowest docs/_build docs/gallery docs/api/generated out dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
