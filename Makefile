# CI runs the same targets as a developer's machine.
.PHONY: build gateway optimized dist test-dist lint dev t prepare binaries stand-ins package test test-rust test-clients test-full test-infra test-edge test-fleet test-bare test-servers test-s3-tests test-s3-tests-gateway bench bench-experiments bench-stores bench-statistics bench-disturbed bench-twin bench-judge bench-logs bench-prices bench-counts bench-kills bench-fuzz bench-simulation bench-gateway bench-idle bench-slow soak schema site gallery results results-pages sentences

VENV := .venv
PYTHON := $(VENV)/bin/python
VERSITYGW := $(shell go env GOPATH 2>/dev/null)/bin/versitygw
MINIO := $(shell go env GOPATH 2>/dev/null)/bin/minio
HELM := $(shell go env GOPATH 2>/dev/null)/bin/helm
HELM_PACKAGE := helm.sh/helm/v3/cmd/helm@v3.22.0
FAKE_GCS := $(shell go env GOPATH 2>/dev/null)/bin/fake-gcs-server

# Clippy compiles the workspace in the place of rustc, so that one build serves lints, tests and clients. A warning is an
# error. The tools that pip installs are on the path.
LINTED := PATH="$(abspath $(VENV))/bin:$$PATH" RUSTC_WORKSPACE_WRAPPER=clippy-driver \
	CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# All members except plimsoll-bench, whose dependencies are large.
MEMBERS := --workspace --exclude plimsoll-bench
# The debug builds that the tests with real clients use.
DEBUG := PLIMSOLL="$(abspath target/debug/plimsoll)" GATEWAY="$(abspath target/debug/plimsoll-gateway)"

# The lean build.
build:
	cargo build --release

# The gateway. It shares its dependencies with the lean build.
gateway:
	cargo build --release -p plimsoll-gateway

# The build of benches, like that of published binaries: less CPU time per operation, twice the build time.
optimized:
	cargo build --profile dist
	cargo build --profile dist -p plimsoll-bench --bin floor

# The artifacts of a release in target/artifacts: archives, Debian packages, wheels, images, a list of components and
# checksums. Needs buildah, dpkg-deb and the toolchains' targets for musl; half an hour on two cores. DIST=--help shows how
# to build some of them.
DIST_VENV := $(VENV)-dist
dist: $(DIST_VENV)/ready
	PATH="$(abspath $(DIST_VENV))/bin:$(abspath .tools)/bin:$$PATH" $(DIST_VENV)/bin/python packaging/dist.py $(DIST)

# Installs the artifacts in bare root file systems and images, runs the image of the gateway as the pod of the Helm chart,
# and measures with them. Needs root, debootstrap and helm.
test-dist: $(DIST_VENV)/ready
	@command -v helm >/dev/null || test -x "$(HELM)" || go install $(HELM_PACKAGE)
	HELM=$$(command -v helm || echo "$(HELM)") $(DIST_VENV)/bin/python packaging/test.py

$(DIST_VENV)/ready: packaging/requirements.txt
	python3 -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
	rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl
	command -v cargo-cyclonedx >/dev/null || cargo install --quiet --locked --root .tools cargo-cyclonedx@0.5.9
	touch $@

# All tests: lints; unit, property, wire and black-box tests; then real S3 clients against `plimsoll serve` and the gateway.
# A suite that fails does not stop the next one. Ends with one summary. It names the programs without which tests are
# skipped, the ten slowest tests, the suites that use more time of the processors than their budget, and the tests that
# failed. No test is repeated. CHANGED=--changed leaves out the suites with real clients whose files have not changed since
# they have passed.
CHANGED :=
test:
	@rm -f target/nextest/default/junit.xml target/clients.xml target/durations; mkdir -p target; failed=; \
	for suite in prepare lint test-rust test-clients; do \
		tests/suites timed $$suite $(MAKE) --no-print-directory $$suite || failed="$$failed $$suite"; done; \
	tests/summary $$failed

# Everything that the tests need, for `make -j`.
prepare: $(VENV)/ready stand-ins binaries

test-rust: binaries stand-ins
	$(LINTED) cargo nextest run $(MEMBERS)

test-clients: package stand-ins binaries
	PATH="$(abspath $(VENV))/bin:$$PATH" $(DEBUG) \
		$(PYTHON) tests/suites clients $(CHANGED) -q -n 4 --dist loadfile --no-loadscope-reorder -r s

# All tests, and those of infrastructure, relays and fleets.
test-full: test test-infra test-edge test-fleet

# The inner loop: formatting, lints and tests of the crates that changed since the last commit, and of those that use them.
dev: $(VENV)/ready
	cargo fmt --all --check
	$(LINTED) cargo nextest run $(MEMBERS) --no-tests=pass -E "$$(tests/changed)"

# Lints and tests of one crate: `make t C=judge`.
t: $(VENV)/ready
	$(LINTED) cargo nextest run -p $(if $(filter plimsoll,$(C)),plimsoll,plimsoll-$(C))

# Builds programs, tests and benches, with lints.
binaries: $(VENV)/ready
	$(LINTED) cargo build $(MEMBERS) --all-targets

# Formatting, circles of files, features, licences and sources. The builds of tests contain the other lints.
lint: $(VENV)/ready
	cargo fmt --all --check
	tests/circles
	tests/features
	PATH="$(abspath $(VENV))/bin:$$PATH" cargo deny --workspace check licenses bans sources

# Installs the Python package, which contains the binary, into the venv. It builds in this tree and reuses the debug build.
package: $(VENV)/ready binaries
	$(LINTED) MATURIN_PEP517_ARGS="--profile dev" \
		$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps .

# Installs emulators of Google Cloud Storage and DynamoDB, if Go and npm are available.
stand-ins:
	@if command -v go >/dev/null; then test -x "$(FAKE_GCS)" || go install github.com/fsouza/fake-gcs-server@v1.56.1; else echo "Go is not installed; the tests of Google Cloud Storage are skipped"; fi
	@if command -v npm >/dev/null; then test -x node_modules/.bin/dynalite -a -x node_modules/.bin/azurite-blob || npm install --no-save --no-package-lock --silent dynalite@4 azurite@3; else echo "npm is not installed; the tests of DynamoDB and Azure are skipped"; fi

# Tests the programs in infra/ with mocked providers, and the Helm chart and the Compose file of the gateway. Three
# minutes, most of them for the installation. This suite and the next two record a digest of the code that they tested,
# so that CI repeats them only after changes.
INFRA := $(VENV)-infra
test-infra: $(INFRA)/ready
	cd infra/typescript && npm ci --no-audit --no-fund --silent && npm test
	@if command -v go >/dev/null; then test -x "$(HELM)" || go install $(HELM_PACKAGE); fi
	HELM=$$(command -v "$(HELM)") $(INFRA)/bin/python -m pytest -q -W ignore::DeprecationWarning \
		infra/python/tests infra/tests
	tests/suites record infra

$(INFRA)/ready: infra/python/requirements.txt infra/tests/requirements.txt
	python3 -m venv $(INFRA)
	$(INFRA)/bin/pip install --quiet --disable-pip-version-check -r infra/python/requirements.txt \
		-r infra/tests/requirements.txt
	touch $@

# Tests the relays: the Worker on workerd and the Lambda function, driven by the debug build. One minute.
test-edge: binaries
	for relay in worker lambda; do (cd edge/$$relay && npm ci --no-audit --no-fund --silent && $(DEBUG) npm test) || exit 1; done
	tests/suites record edge

# Runs fleets of eight nodes on Slurm's daemons and on Ray in network namespaces, as root, and renders the Helm chart, in
# five minutes.
FLEET := $(VENV)-fleet
test-fleet: $(FLEET)/ready binaries
	@if command -v go >/dev/null; then test -x "$(HELM)" || go install $(HELM_PACKAGE); fi
	PLIMSOLL_RAY_PYTHON=$(abspath $(FLEET))/bin/python \
		HELM=$$(command -v "$(HELM)") $(DEBUG) \
		$(FLEET)/bin/python -m pytest -q -s tests/fleet
	tests/suites record fleet

$(FLEET)/ready:
	python3 -m venv $(FLEET)
	$(FLEET)/bin/pip install --quiet --disable-pip-version-check 'ray>=2.30' 'polars>=1.20' 'pytest>=9' pyyaml
	touch $@

# Executes the README's two commands in a Debian that has only what the README names, then with Go and npm, as root. Needs
# debootstrap; about 40 minutes.
test-bare:
	tests/bare

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
# seeds of several gateways that move objects, and a million of the backup of the log.
bench-simulation:
	PLIMSOLL_SEEDS=20000 cargo test -p plimsoll-simulation -- --skip moves:: --skip shipping::
	PLIMSOLL_SEEDS=1000000 cargo test --release -p plimsoll-simulation moves:: -- --nocapture
	PLIMSOLL_SEEDS=1000000 cargo test --release -p plimsoll-simulation shipping:: -- --nocapture

# Compares the gateway with the memory service, versitygw and MinIO, kills it 500 times, and compares engines.
# Takes about an hour on a quiet machine.
# Needs PostgreSQL, HAProxy and an rclone that can serve S3.
bench-gateway: build gateway $(VERSITYGW) $(MINIO)
	PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) benches/servers.py put get
	$(PYTHON) benches/gateway_kills.py 500
	cargo bench -p plimsoll-bench --bench engines
	for bench in packing.py gateway_latency.py "moves.py small" "moves.py large" tier_down.py placing_kills.py rolling.py; do \
	  PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) benches/$$bench || exit 1; done

# Tests the gateway for 30 minutes with each catalog, under all work and restarts; about two hours. Needs PostgreSQL,
# rclone and restic. SOAK selects another size: SOAK='--objects 1000 --minutes 3'.
SOAK := --objects 50000 --minutes 30 --restart-every 300 --deadline 3600
soak: build gateway $(VENV)/ready
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PYTHON) benches/soak.py $(SOAK)

# Memory of the gateway while thousands of clients read slowly; two minutes.
bench-slow: gateway $(VENV)/ready
	$(PYTHON) benches/slow_readers.py

# Measures an authenticated client while idle connections and incomplete request heads are open; two minutes.
bench-idle: optimized
	python3 benches/idle.py

# Measures ratios to wrk on pinned cores, medians of five, then runs the calibration and two more benches.
# Takes about 15 minutes on a quiet machine; needs wrk and taskset.
bench: optimized
	python3 benches/run.py
	target/dist/plimsoll calibrate
	python3 benches/experiments.py
	python3 benches/stores.py

# Measures drift, ramps and phase boundaries on servers with known behaviour, and plans of large experiments;
# about five minutes.
bench-experiments: optimized
	python3 benches/experiments.py

# Measures sessions, uploads, synchronisation and YCSB, in turns with the AWS CLI and rclone; about 15 minutes.
bench-stores: optimized
	PATH="$(abspath $(VENV))/bin:$$PATH" python3 benches/stores.py

# Measures the errors of service times on a machine with busy loops, and with a client that is stopped; three minutes.
bench-disturbed: optimized
	python3 benches/disturbed.py

# Measures servers and then their twins (`plimsoll serve --like`) in the same way; ten minutes.
bench-twin: build $(VERSITYGW) $(MINIO)
	PATH="$$(go env GOPATH)/bin:$$PATH" $(PYTHON) benches/twin.py --duration 12s

# Measures the statistics in simulated runs: coverage of the intervals, wrong verdicts and power; about ten minutes.
bench-statistics:
	cargo bench -p plimsoll-report --bench statistics

# Compares runs of one store, finds the capacity of servers with known limits, and times reports of long runs.
# Takes about half an hour on a quiet machine.
bench-judge: optimized
	python3 benches/judge.py

# Measures the parsing of logs in every format, and of fits; one minute.
bench-logs:
	cargo bench -p plimsoll-workload --bench logs

# Counts instructions and system calls of one request, and compares them with benches/counts.json. Needs valgrind.
bench-counts:
	cargo build --release -p plimsoll-bench --bin counts -p plimsoll-gateway --bin plimsoll-gateway
	python3 benches/counts.py && tests/suites record counts

# Prices a million workloads at every provider, and compares the bills with a decimal library; 15 seconds.
bench-prices:
	cargo bench -p plimsoll-bench --bench prices

# Kills commands at random times and verifies that `plimsoll clean` removes what they leave; about three minutes.
bench-kills: optimized $(VENV)/ready
	$(PYTHON) benches/kills.py

# Runs every fuzz target on a million mutated inputs; about 15 minutes.
bench-fuzz:
	FUZZ_INPUTS=1000000 cargo test --release --test it fuzz

# The documentation site in target/site, which works without a network and without a server.
SITE := $(VENV)-site
site: $(SITE)/ready
	cargo build --quiet -p plimsoll-package -p plimsoll
	target/debug/plimsoll-package target/generated
	mkdir -p target/generated/gallery
	for run in docs/gallery/*/; do \
		target/debug/plimsoll report $$run --output target/generated/gallery/$$(basename $$run).html >/dev/null || exit 1; done
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --config-file site/mkdocs.yml

$(SITE)/ready: site/requirements.txt
	python3 -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check -r site/requirements.txt
	touch $@

# Makes the runs and pictures of the gallery again, and that of the README; needs chromium and six quiet minutes.
gallery: build $(VENV)/ready
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'pillow>=11'
	$(PYTHON) docs/gallery/make.py

# Measures S3 servers on this machine and writes the pages of results/, in about two hours on two quiet cores. The first
# time, it also builds Garage, in 15 minutes. Needs Go, root or fusermount3, and the Debian packages postgresql,
# default-jre-headless, radosgw, ceph-mon and ceph-osd; servers whose programs are missing are left out. STEPS and SERVERS
# select a part.
RESULTS := $(VENV)-results
GARAGE := .tools/bin/garage
S3PROXY := .tools/s3proxy.jar
results: build gateway $(RESULTS)/ready $(VERSITYGW) $(MINIO) $(GARAGE) $(S3PROXY)
	PATH="$(abspath $(RESULTS))/bin:$(abspath .tools)/bin:$$(go env GOPATH)/bin:$$PATH" \
		S3PROXY_JAR="$(abspath $(S3PROXY))" $(RESULTS)/bin/python results/measure.py \
		$(if $(SERVERS),--servers $(SERVERS)) $(if $(STEPS),--steps $(STEPS))

# Makes the pages of results/ from their raw data again, and verifies the data.
results-pages: build
	python3 results/pages.py
	python3 results/pages.py --check

$(GARAGE):
	cargo install --quiet --locked --root .tools --no-default-features --features bundled-libs,lmdb garage@2.5.0

$(S3PROXY):
	mkdir -p .tools
	curl --silent --show-error --fail --location --output $@ \
		https://repo1.maven.org/maven2/org/gaul/s3proxy/4.1.0/s3proxy-4.1.0-jar-with-dependencies.jar

$(RESULTS)/ready: results/requirements.txt
	python3 -m venv $(RESULTS)
	$(RESULTS)/bin/pip install --quiet --disable-pip-version-check -r results/requirements.txt
	touch $@

# Draws 60 sentences of the project, to be read with fresh eyes; SEED=2 draws others.
sentences:
	python3 tests/prose/draw.py $(or $(SEED),1)

# Regenerates the JSON schemas from the code.
schema:
	UPDATE_SCHEMA=1 cargo test --test it schema
	UPDATE_SCHEMA=1 cargo test -p plimsoll-gateway --lib published_schema

$(VENV)/ready: tests/clients/requirements.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
	python3 -m venv $(VENV)/s3fs
	$(VENV)/s3fs/bin/pip install --quiet --disable-pip-version-check s3fs==2026.9.0
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
