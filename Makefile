# The same targets on a laptop and in CI.
.PHONY: build test package stand-ins lint test-servers bench bench-experiments bench-stores bench-statistics bench-judge bench-prices bench-kills bench-fuzz schema dev test-s3-tests bench-idle

VENV := .venv
PYTHON := $(VENV)/bin/python
VERSITYGW := $(shell go env GOPATH 2>/dev/null)/bin/versitygw
MINIO := $(shell go env GOPATH 2>/dev/null)/bin/minio
FAKE_GCS := $(shell go env GOPATH 2>/dev/null)/bin/fake-gcs-server

build:
	cargo build --release

# Everything that must hold: unit, property, wire and black-box tests, then real S3 clients against `plimsoll serve`.
test: $(VENV)/ready build package stand-ins
	cargo test
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PYTHON) -m pytest -q tests/clients

# The Python package with the binary in it, as `pip install .` installs it; it builds in this tree, so nothing is built twice.
package: $(VENV)/ready build
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .

# Servers that stand in for Google Cloud Storage and DynamoDB, where Go and npm are there to get them.
stand-ins:
	@if command -v go >/dev/null; then test -x "$(FAKE_GCS)" || go install github.com/fsouza/fake-gcs-server@v1.56.1; else echo "no Go: Google Cloud Storage is not tested"; fi
	@if command -v npm >/dev/null; then test -x node_modules/.bin/dynalite || npm install --no-save --no-package-lock --silent dynalite@4; else echo "no npm: DynamoDB is not tested"; fi

lint:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

# Every short form against versitygw, MinIO and moto, and versitygw's own suite against `plimsoll serve`.
test-servers: $(VENV)/servers $(VERSITYGW) $(MINIO) build
	PATH="$(abspath $(VENV))/bin:$$(go env GOPATH)/bin:$$PATH" $(PYTHON) tests/clients/servers.py
	PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) tests/protocol/run.py

# ceph s3-tests against `plimsoll serve`. S3_TESTS is a clone of https://github.com/ceph/s3-tests; takes four minutes.
S3_TESTS := ../s3-tests
test-s3-tests: $(VENV)/s3-tests build
	$(VENV)-s3-tests/bin/python tests/protocol/s3_tests.py "$(S3_TESTS)"

# Idle connections and half-sent heads beside an authenticated client; two minutes.
bench-idle: build
	python3 benches/idle.py

# Ratios against wrk, pinned cores, median of five; about a quarter of an hour on a quiet machine (needs wrk and taskset).
bench: build
	python3 benches/run.py
	target/release/plimsoll calibrate
	python3 benches/experiments.py
	python3 benches/stores.py

# Drift, ramps, phase edges and large plans against servers whose truth is known; about five minutes.
bench-experiments: build
	python3 benches/experiments.py

# Sessions, uploads, synchronisations and YCSB, in turn with the AWS CLI and rclone; about a quarter of an hour.
bench-stores: build
	PATH="$(abspath $(VENV))/bin:$$PATH" python3 benches/stores.py

# Do intervals hold the truth? Simulated runs, two thousand of each kind; about five minutes.
bench-statistics:
	cargo bench --bench statistics

# Two runs of one store, the knee of servers of known capacity, reports of long runs; about half an hour on a quiet machine.
bench-judge: build
	python3 benches/judge.py

# A million workloads at every provider, beside a decimal library; a quarter of a minute.
bench-prices:
	cargo bench --bench prices

# Kills commands at random moments and cleans up after them; about three minutes.
bench-kills: build $(VENV)/ready
	$(PYTHON) benches/kills.py

# A million mutated inputs for every fuzz target; about a quarter of an hour.
bench-fuzz:
	FUZZ_INPUTS=1000000 cargo test --release --test fuzz

# Rewrites the schemas from the code.
schema:
	UPDATE_SCHEMA=1 cargo test --test schema

# The inner loop.
dev: lint
	cargo test

$(VENV)/ready: tests/clients/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	touch $@

$(VENV)/servers: $(VENV)/ready
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'moto[server]==5.*' 'jsonschema>=4'
	touch $@

$(VENV)/s3-tests: $(VENV)/ready
	python3 -m venv $(VENV)-s3-tests
	$(VENV)-s3-tests/bin/pip install --quiet --disable-pip-version-check -r "$(S3_TESTS)/requirements.txt"
	touch $@

$(VERSITYGW):
	go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

$(MINIO):
	go install github.com/minio/minio@latest
