# CI runs the same targets as a developer's machine.
.PHONY: build dist screenshot sentences test package stand-ins lint test-servers bench bench-experiments bench-stores bench-statistics bench-disturbed bench-judge bench-logs bench-prices bench-kills bench-fuzz bench-simulation bench-gateway gateway schema dev test-s3-tests test-s3-tests-gateway bench-idle test-fleet test-infra test-edge

VENV := .venv
PYTHON := $(VENV)/bin/python
VERSITYGW := $(shell go env GOPATH 2>/dev/null)/bin/versitygw
MINIO := $(shell go env GOPATH 2>/dev/null)/bin/minio
HCLFMT := $(shell go env GOPATH 2>/dev/null)/bin/hclfmt
HELM := $(shell go env GOPATH 2>/dev/null)/bin/helm
FAKE_GCS := $(shell go env GOPATH 2>/dev/null)/bin/fake-gcs-server

# The lean build: five minutes on two cores from nothing.
build:
	cargo build --release

# The gateway, a separate package: two minutes more.
gateway:
	cargo build --release -p plimsoll-gateway

# The build of published binaries and benches: less CPU time per operation, twice the build time.
dist:
	cargo build --profile dist

# All tests: unit, property, wire and black-box tests, then real S3 clients against `plimsoll serve` and a debug build of
# the gateway, which shares its dependencies with the tests: a release build would need eight minutes more.
test: $(VENV)/ready build package stand-ins
	cargo test --workspace
	cargo build --workspace
	PATH="$(abspath $(VENV))/bin:$$PATH" GATEWAY="$(abspath target/debug/plimsoll-gateway)" \
		$(PYTHON) -m pytest -q tests/clients

# Installs the Python package, which contains the binary, into the venv. It builds in this tree and reuses the release
# build.
package: $(VENV)/ready build
	PATH="$(abspath $(VENV))/bin:$$PATH" MATURIN_PEP517_ARGS="--profile release" \
		$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .

# Installs emulators of Google Cloud Storage and DynamoDB, if Go and npm are available.
stand-ins:
	@if command -v go >/dev/null; then test -x "$(FAKE_GCS)" || go install github.com/fsouza/fake-gcs-server@v1.56.1; else echo "Go is not installed; the tests of Google Cloud Storage are skipped"; fi
	@if command -v npm >/dev/null; then test -x node_modules/.bin/dynalite || npm install --no-save --no-package-lock --silent dynalite@4; else echo "npm is not installed; the tests of DynamoDB are skipped"; fi

# Tests the programs in infra/ with mocked providers, and the formatting of the OpenTofu files. Two minutes, most of them
# for the installation.
INFRA := $(VENV)-infra
test-infra: $(INFRA)/ready
	cd infra/typescript && npm ci --no-audit --no-fund --silent && npm test
	$(INFRA)/bin/python -m pytest -q -W ignore::DeprecationWarning infra/python/tests
	@if command -v go >/dev/null; then test -x "$(HCLFMT)" || go install github.com/hashicorp/hcl/v2/cmd/hclfmt@v2.24.0; \
	for file in infra/terraform/*.tf; do "$(HCLFMT)" "$$file" | diff -u "$$file" - || exit 1; done; fi

$(INFRA)/ready: infra/python/requirements.txt
	python3 -m venv $(INFRA)
	$(INFRA)/bin/pip install --quiet --disable-pip-version-check -r infra/python/requirements.txt 'pytest>=9'
	touch $@

# Tests the relays: the Worker on workerd and the Lambda function, driven by the release build. One minute.
test-edge: build
	for relay in worker lambda; do (cd edge/$$relay && npm ci --no-audit --no-fund --silent && npm test) || exit 1; done

# Runs fleets of eight nodes on Slurm's daemons and on Ray in network namespaces, as root, and renders the Helm chart, in
# five minutes. If they pass, records the state of the code, so that CI repeats them only after changes.
FLEET := $(VENV)-fleet
test-fleet: $(FLEET)/ready build
	@if command -v go >/dev/null; then test -x "$(HELM)" || go install helm.sh/helm/v3/cmd/helm@v3.22.0; fi
	PLIMSOLL_RAY_PYTHON=$(abspath $(FLEET))/bin/python \
		HELM=$$(command -v "$(HELM)") \
		$(FLEET)/bin/python -m pytest -q -s tests/fleet
	tests/fleet/digest > tests/fleet/verified

$(FLEET)/ready:
	python3 -m venv $(FLEET)
	$(FLEET)/bin/pip install --quiet --disable-pip-version-check 'ray>=2.30' 'polars>=1.20' 'pytest>=9' pyyaml
	touch $@

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

# Runs every short form against versitygw, MinIO and moto, and versitygw's own test suite against `plimsoll serve`.
test-servers: $(VENV)/servers $(VERSITYGW) $(MINIO) build
	PATH="$(abspath $(VENV))/bin:$$(go env GOPATH)/bin:$$PATH" $(PYTHON) tests/clients/servers.py
	PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) tests/protocol/run.py

# Runs ceph s3-tests against `plimsoll serve`, in four minutes. S3_TESTS is a clone of https://github.com/ceph/s3-tests.
S3_TESTS := ../s3-tests
test-s3-tests: $(VENV)/s3-tests build
	$(VENV)-s3-tests/bin/python tests/protocol/s3_tests.py "$(S3_TESTS)"

# Runs ceph s3-tests against the gateway, in ten minutes.
test-s3-tests-gateway: $(VENV)/s3-tests gateway
	$(VENV)-s3-tests/bin/python tests/protocol/s3_tests.py "$(S3_TESTS)" --gateway

# Simulates the gateway's catalog on a disk that loses power, and on one that decays, 20,000 seeds each; then a million
# seeds of several gateways that move objects. Twelve minutes.
bench-simulation:
	PLIMSOLL_SEEDS=20000 cargo test -p plimsoll-gateway --lib simulation -- --skip simulation::moves
	PLIMSOLL_SEEDS=1000000 cargo test --release -p plimsoll-gateway --lib simulation::moves -- --nocapture

# Compares the gateway with the memory service, versitygw and MinIO, kills it 500 times, and compares engines.
# Takes about an hour on a quiet machine.
# Needs PostgreSQL, HAProxy and an rclone that can serve S3.
bench-gateway: build gateway $(VERSITYGW) $(MINIO)
	PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) benches/servers.py put get
	$(PYTHON) benches/gateway_kills.py 500
	cargo bench -p plimsoll-gateway --bench engines
	for bench in packing.py gateway_latency.py "moves.py small" "moves.py large" tier_down.py placing_kills.py rolling.py; do \
	  PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) benches/$$bench || exit 1; done

# Measures an authenticated client while idle connections and incomplete request heads are open; two minutes.
bench-idle: dist
	python3 benches/idle.py

# Measures ratios to wrk on pinned cores, medians of five, then runs the calibration and two more benches.
# Takes about 15 minutes on a quiet machine; needs wrk and taskset.
bench: dist
	python3 benches/run.py
	target/dist/plimsoll calibrate
	python3 benches/experiments.py
	python3 benches/stores.py

# Measures drift, ramps and phase boundaries on servers with known behaviour, and plans of large experiments;
# about five minutes.
bench-experiments: dist
	python3 benches/experiments.py

# Measures sessions, uploads, synchronisation and YCSB, in turns with the AWS CLI and rclone; about 15 minutes.
bench-stores: dist
	PATH="$(abspath $(VENV))/bin:$$PATH" python3 benches/stores.py

# Measures the errors of service times on a machine with busy loops, and with a client that is stopped; three minutes.
bench-disturbed: dist
	python3 benches/disturbed.py

# Measures the statistics in simulated runs: coverage of the intervals, wrong verdicts and power; about ten minutes.
bench-statistics:
	cargo bench --bench statistics

# Compares runs of one store, finds the capacity of servers with known limits, and times reports of long runs.
# Takes about half an hour on a quiet machine.
bench-judge: dist
	python3 benches/judge.py

# Measures the parsing of logs in every format, and of fits; one minute.
bench-logs:
	cargo bench --bench logs

# Prices a million workloads at every provider, and compares the bills with a decimal library; 15 seconds.
bench-prices:
	cargo bench --bench prices

# Kills commands at random times and verifies that `plimsoll clean` removes what they leave; about three minutes.
bench-kills: dist $(VENV)/ready
	$(PYTHON) benches/kills.py

# Runs every fuzz target on a million mutated inputs; about 15 minutes.
bench-fuzz:
	FUZZ_INPUTS=1000000 cargo test --release --test it fuzz

# Regenerates the picture of a report in the README; needs chromium.
screenshot: build $(VENV)/ready
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'pillow>=11'
	$(PYTHON) docs/screenshot.py

# Draws 60 sentences of the project, to be read with fresh eyes; SEED=2 draws others.
sentences:
	python3 tests/prose/draw.py $(or $(SEED),1)

# Regenerates the JSON schemas from the code.
schema:
	UPDATE_SCHEMA=1 cargo test --test it schema

# Formatting, lints and Rust tests, for the inner loop.
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
