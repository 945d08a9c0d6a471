# Every developer command. `make` alone lists them.
#
# All of them need only CPython >= 3.10 and a Rust toolchain; they make .venv themselves and write nothing
# else but what .gitignore names. Another interpreter: `make PYTHON=python3.12 test`.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

# Processes that share the Python tests.
WORKERS ?= 2
PYTEST := $(PY) -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 20
# The processes of the tests share the cores already. Threads of PyTorch and of NumPy's BLAS spin while they wait for each
# other, which keeps the cores from the other processes.
test test-slow test-opacus: export OMP_NUM_THREADS ?= 1
# The files with tests that have one of these marks: each process would import all others as well.
marked = $(shell grep -lE 'mark\.($(1))' tests/*.py)

# The venv of this checkout, whatever else is active in the calling shell.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(PY)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Matplotlib's font cache: inside the venv rather than in the home directory.
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH

BUILD_INPUTS := Cargo.toml Cargo.lock pyproject.toml $(shell find src -name '*.rs')

.DEFAULT_GOAL := help
# No path of this machine gets into what is built; and all targets build alike, so that nothing is compiled twice.
export CARGO_ENCODED_RUSTFLAGS := $(shell sh scripts/release_flags.sh 2>/dev/null)

.NOTPARALLEL:
.PHONY: help tools calculator demo test test-slow test-long test-opacus test-originals test-browser test-calculator bench bench-all bench-instructions constants python-constants \
	lint lint-rust test-rust docs experiments notebooks wheel crate pictures audit sbom reproducible clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 20

tools:
	@sh scripts/check_tools.sh "$(PYTHON)"

# Stamp files: what they stand for is done again only when something it depends on is newer.
# The Python sources are not listed because the development install uses them in place.
$(VENV)/made: | tools
	"$(PYTHON)" -m venv --clear $(VENV)
	$(PY) -m pip install --quiet 'maturin>=1.9,<2'
	@touch $@

# install,EXTRAS,STAMP: build the extension in release mode and install what the extras name.
define install
	$(PY) -m maturin develop --release --locked --extras $(1)
	@touch $(2)
endef

$(VENV)/for-demo: $(BUILD_INPUTS) $(VENV)/made | tools
	$(call install,demo,$@)

$(VENV)/for-dev: $(BUILD_INPUTS) $(VENV)/made | tools
	$(call install,"demo$(COMMA)dev$(COMMA)release",$@)
	@touch $(VENV)/for-demo

$(VENV)/for-opacus: $(BUILD_INPUTS) $(VENV)/made | tools
	$(call install,"demo$(COMMA)dev$(COMMA)release$(COMMA)opacus$(COMMA)bench$(COMMA)examples$(COMMA)clusters",$@)
	@touch $(VENV)/for-demo $(VENV)/for-dev

$(VENV)/for-notebooks: $(BUILD_INPUTS) $(VENV)/made | tools
	$(call install,notebooks,$@)

$(VENV)/for-experiments: $(BUILD_INPUTS) $(VENV)/made scripts/experiment_data.sh | tools
	$(call install,experiments,$@)

$(VENV)/for-docs: $(BUILD_INPUTS) $(VENV)/made | tools
	$(call install,docs,$@)

COMMA := ,

docs/calculator/engine.js: $(BUILD_INPUTS) $(shell find calculator -name '*.rs') calculator/Cargo.toml calculator/Cargo.lock \
		scripts/build_calculator.sh scripts/calculator_engine.py
	PYTHON="$(PYTHON)" sh scripts/build_calculator.sh

calculator: docs/calculator/engine.js ## the core as WebAssembly, for the calculator in the documentation; needs a target of rustup

demo: $(VENV)/for-demo ## train on real digits with DP-SGD and account for groups; pictures go to demo/output
	$(PY) -m demo

pictures: demo ## run the demo and keep its pictures for the README
	cp demo/output/*.png docs/images/

# Run again only after a change of Rust code or of the reference values in tests/data.
$(VENV)/rust-tested: $(BUILD_INPUTS) $(wildcard tests/*.rs tests/data/*.csv) $(VENV)/made | tools
	cargo test --profile checked --locked
	@touch $@

test-rust: $(VENV)/rust-tested ## the Rust tests of `make test`, with debug assertions and overflow checks

test: $(VENV)/for-dev $(VENV)/rust-tested ## Rust tests with debug assertions and overflow checks, and Python tests; doctests included
	$(PYTEST) -m 'not slow and not distributed and not long and not opacus and not clusters and not browser and not experiments'

test-slow: $(VENV)/for-dev ## the tests that take long, those on a cluster of processes among them
	$(PYTEST) $(call marked,slow|distributed) -m '(slow or distributed) and not long and not opacus and not clusters and not browser and not experiments'

test-opacus: $(VENV)/for-opacus ## beside Opacus and dp-accounting, in a real training loop, on MPI; installs torch (5 GB)
	$(PYTEST) $(call marked,opacus|clusters) -m '(opacus or clusters) and not long'

# prv-accountant and autodp have their tests on GitHub alone; ORIGINALS_GIT names another server that has them.
test-originals: $(VENV)/for-opacus ## the test suites of four other accountants, with our names; SUITES= for some; needs a network
	$(PY) scripts/fetch_originals.py $(VENV)/originals $(SUITES)
	$(PY) scripts/run_originals.py $(VENV)/originals $(SUITES)

test-long: $(VENV)/for-opacus ## nightly sizes: 5,000 runs beside the peers, 10^5 random calls; hours and gigabytes
	$(PYTEST) -m long

test-browser: $(VENV)/for-dev ## reports in a headless Chromium; needs the program chromium
	$(PY) -m pytest -m browser --ignore tests/test_calculator_browser.py

test-calculator: $(VENV)/for-dev docs/calculator/engine.js ## the calculator, as a crate and in a headless Chromium
	cargo fmt --check --manifest-path calculator/Cargo.toml
	CARGO_TARGET_DIR=$(CURDIR)/target/calculator cargo clippy --locked --all-targets --manifest-path calculator/Cargo.toml -- -D warnings
	CARGO_TARGET_DIR=$(CURDIR)/target/calculator cargo test --release --locked --manifest-path calculator/Cargo.toml
	$(PY) -m pytest -m browser tests/test_calculator_browser.py

lint-rust: $(VENV)/made | tools ## what `make lint` says of Rust alone
	cargo fmt --check
	cargo clippy --locked --all-targets --features python -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items --features python

lint: $(VENV)/for-dev docs lint-rust ## formatting, lints, types and documentation, warnings as errors
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy python
	$(PY) -m mypy -p demo -p benches.compare -p benches.constants -p benches.python_constants -p benches.experiments
	$(PY) -m mypy.stubtest hockeystick._core
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/zizmor --offline --quiet .github

bench: $(VENV)/for-opacus ## the table of docs/benchmarks.md, beside the peers; installs torch (5 GB)
	$(PY) -m benches.compare.table --write

bench-all: $(VENV)/for-opacus ## every benchmark in detail: kernels alone, beside plain NumPy and beside the peers
	cargo bench --locked --bench '*' -- --quick
	$(PY) -m benches.compare

bench-instructions: $(VENV)/made ## instructions of the kernels, by callgrind, against the kept counts
	$(PY) scripts/count_instructions.py

docs: $(VENV)/for-docs ## the documentation, as HTML, into site/; nothing is downloaded
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

constants: $(VENV)/made ## what becomes of answers when a constant of the core is doubled, into docs/constants.md; CONSTANTS=--all measures all again
	$(PY) -m benches.constants $(CONSTANTS)

python-constants: $(VENV)/for-dev ## the same for the Python package, into docs/python-constants.md; CONSTANTS=--all measures all again
	$(PY) -m benches.python_constants $(CONSTANTS)

# Memory that PyTorch frees is kept for its next tensors: giving it back to the system takes a third of LeNet-5's time.
experiments: $(VENV)/for-experiments ## the papers' experiments on real data, into docs/experiments/; goes on where it stopped; installs the data; PAPERS= for some
	sh scripts/experiment_data.sh $(PY)
	$(PY) -m pytest -m experiments tests/test_datasets.py
	MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=1000000000 $(PY) -m benches.experiments $(PAPERS)

notebooks: $(VENV)/for-notebooks ## run every notebook from a clean kernel, or those of NOTEBOOKS
	$(PY) scripts/run_notebooks.py $(NOTEBOOKS)

wheel: $(VENV)/for-dev | tools ## wheel and source distribution, into dist/, and a check that they stand alone
	rm -rf dist
	CARGO_TARGET_DIR=$(CURDIR)/target sh scripts/build_wheel.sh $(PY) dist
	$(PY) -m maturin sdist --out dist
	sh scripts/check_wheel.sh $(PY)

crate: | tools ## what `cargo publish` would send, compiled from there; sends nothing
	cargo publish --dry-run --locked --allow-dirty

audit: $(VENV)/made | tools ## ask for known flaws in what this depends on; needs a network, and says which tools it lacks
	sh scripts/audit.sh $(PY) $(AUDIT)

sbom: | tools ## what the wheel is made of, as CycloneDX JSON, into target/
	mkdir -p target
	"$(PYTHON)" scripts/sbom.py target/hockeystick.cdx.json

reproducible: $(VENV)/made | tools ## the wheel, twice from nothing in two folders: the same bytes
	sh scripts/check_reproducible.sh $(CURDIR)/$(PY)

clean: ## remove everything that make made
	rm -f docs/calculator/engine.js
	rm -rf $(VENV) target site dist demo/output .experiments .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f python/hockeystick/_core*.so python/hockeystick/_core*.pyd
	find python tests demo benches docs scripts -name __pycache__ -type d -prune -exec rm -rf {} +
