# Short targets over cargo. All of them share one profile (release), so dependencies are built once.

SHELL := /bin/bash
CARGO ?= cargo
# Where `make run` puts what it makes.
OUT ?= out
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
BIN := $(TARGET)/release/trajpress
# PORTABLE=1 builds llama.cpp for any x86-64 since Haswell; otherwise for this machine (see tests/native.sh).
NATIVE := source tests/native.sh &&
export PORTABLE

.DEFAULT_GOAL := help
.PHONY: help setup build wheel wheel-test run test soak cluster-test cloud-test differential formats peers lint coverage bench figures clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## Install what the build needs (through apt, when root), or say exactly what is missing
	@bash tests/setup.sh

build: setup ## Build the program
	@echo "== build: about 310 crates, arrow, polars and llama.cpp dominate; 15 to 30 minutes on two cores when cold, seconds when warm"
	$(NATIVE) $(CARGO) build --release --locked

# For any processor, unless PORTABLE= says otherwise: then what `make build` built is packed.
wheel: PORTABLE = 1
wheel: setup ## Pack the program as a wheel, into dist/
	@test -x $(TARGET)/maturin/bin/maturin || \
		python3 -m pip install --quiet --disable-pip-version-check --target $(TARGET)/maturin 'maturin>=1.9,<2'
	rm -rf dist
	$(NATIVE) $(TARGET)/maturin/bin/maturin build --release --locked --compression-level 9 --out dist

# What is older than a source proves nothing of it.
wheel-test: ## Install the wheel of dist/ in a fresh virtual environment, and try it there; packs it first where a source is newer
	@if ! ls dist/*.whl >/dev/null 2>&1 || \
		[ -n "$$(find src python Cargo.toml Cargo.lock pyproject.toml -type f -newer "$$(ls dist/*.whl | head -n 1)" -print -quit)" ]; then \
		$(MAKE) wheel; fi
	bash tests/wheel.sh dist/*.whl

run: build ## Do the main job on the built-in data: logs -> tables -> grid -> report, into out/
	@echo "== 1/4 ingest: logs -> $(OUT)/data"
	$(BIN) ingest datasets/coding datasets/support datasets/templates datasets/golden/*.jsonl --out $(OUT)/data
	@echo "== 2/4 annotate: tokens, atoms, action kinds"
	$(BIN) annotate $(OUT)/data
	@echo "== 3/4 run and report: every variant of reports/built-in/experiment.toml over every trajectory"
	$(BIN) run reports/built-in/experiment.toml --data $(OUT)/data --out $(OUT)/run
	$(BIN) report $(OUT)/run --out $(OUT)/report
	@echo "== 4/4 what smollm2-135m, which reads what is left, is still told of the next calls, over some of them (a download of 0.1 GB, kept for the next time)"
	@if $(BIN) models fetch smollm2-135m; then set -ex; \
		$(BIN) run reports/built-in/by_model.toml --data $(OUT)/data --out $(OUT)/run_by_model; \
		$(BIN) report $(OUT)/run_by_model --out $(OUT)/report_by_model; \
	else echo "== SKIPPED: smollm2-135m could not be fetched, so there is no $(OUT)/report_by_model"; fi
	@echo "== done: open $(OUT)/report/report.html, or read $(OUT)/report/summary.md"

test: setup ## Run all tests; set TRAJPRESS_LOGS to a folder of real logs to include them
	@echo "== test: one build of the program and its tests, 15 to 35 minutes on two cores when cold"
	$(NATIVE) $(CARGO) test --release --locked

soak: setup ## Attack the program at length: kills, mutants, flipped bits, two writers, bombs; 20 minutes and 7 GB of memory
	@echo "== soak: the tests of tests/robust.rs and tests/robust/ in their long form, growth, and what needs much memory; figures as in docs/testing.md"
	$(NATIVE) $(CARGO) test --release --locked --no-run
	@$(NATIVE) bad=0; soak() { \
			echo "== $$SECONDS s: $$*"; TRAJPRESS_SOAK=1 $(CARGO) test --release --locked --quiet "$$@" || bad=1; }; \
		soak --test all -- robust:: --nocapture --test-threads 1; \
		soak --lib -- models::cache::tests::a_flipped_bit --nocapture; \
		soak --lib -- more_than_two_gibibytes --ignored --nocapture; \
		soak --test growth -- --nocapture --test-threads 1; \
		echo "== soak: $$SECONDS s, $$([ $$bad = 0 ] && echo all held || echo NOT all held)"; exit $$bad

cluster-test: build ## Do a run on three Ray nodes of this machine while nodes, drivers and workers are killed; 5 minutes
	@bash tests/cluster/install.sh $(TARGET)/ray
	PYTHONPATH=$(TARGET)/ray python3 tests/cluster/try.py $(BIN)

cloud-test: setup ## Do a run in a bucket of an S3 server on this machine; builds with the feature `cloud`: some 60 crates and this one anew
	@test -d $(TARGET)/moto/moto || python3 -m pip install --quiet --disable-pip-version-check --target $(TARGET)/moto 'moto[server]==5.2.5'
	$(NATIVE) $(CARGO) build --release --locked --features cloud
	$(NATIVE) $(CARGO) test --release --locked --features cloud --lib --no-run
	$(NATIVE) PYTHONPATH=$(TARGET)/moto python3 tests/cluster/s3.py $(BIN) $(CARGO) test --release --locked --features cloud --lib -- files::shared

differential: ## Drive the real libraries with the same message lists and record what stands in the prompt
	@bash tests/differential/run.sh
	git diff --stat -- tests/differential/recordings

formats: build ## Count, price and time what is read of real logs, beside agentpile; needs pyarrow and the folders of TRAJPRESS_LOGS, TRAJPRESS_FORMATS
	@for what in counts usage speed agentpile; do python3 tests/formats.py $(BIN) $$what || exit 1; done

peers: build ## Run compressors of others over real logs, and keep the rows in reports/peers; needs TRAJPRESS_LOGS and a PYTHON of 3.12 (reports/peers)
	$(or $(PYTHON),python3) examples/peers/run.py $(BIN)

lint: setup ## Check formatting and lints
	$(CARGO) fmt --check
	$(NATIVE) $(CARGO) clippy --release --all-targets --locked -- -D warnings

coverage: setup ## Say which share of the lines of src/strategies the unit tests run
	@bash tests/coverage.sh

bench: build ## Run the benchmarks, each beside its reference, and what a strategy costs beside the kept tables of reports/speed
	$(NATIVE) $(CARGO) bench --locked
	python3 tests/benches/command.py $(BIN)
	python3 tests/benches/speed.py $(BIN)

figures: build ## Draw the kept reports again from their rows; fails where a committed table differs
	bash tests/figures.sh $(BIN)

clean: ## Remove what `make run` and the build made
	$(CARGO) clean
	rm -rf $(OUT) dist
