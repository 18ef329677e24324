# make demo and make test are all that a person types on a fresh machine: each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
CEXT := $(foreach suffix,pyx pyi pxd pxi h,$(wildcard cext/*.$(suffix) cext/*/*.$(suffix)))

NEED_BROWSER := sh tools/need.sh "Chromium, which opens the report in tests" 'command -v chromium' chromium
NEED_GO := sh tools/need.sh "Go, which builds MinIO and toxiproxy for tests" 'command -v go' golang
# Debian 12 calls the Cargo that is recent enough cargo-web.
NEED_LIBHDFS := { for package in cargo-web cargo; do sh tools/need.sh "Cargo, which brings libhdfs for tests" \
	'command -v cargo || test -x ~/.cargo/bin/cargo' $$package && break; done; \
	sh tools/need.sh "a JDK, which builds libhdfs for tests" 'command -v javac' openjdk-17-jdk-headless; }

.DEFAULT_GOAL := help
.PHONY: help setup demo check test test-all test-services services test-asan test-tsan test-wheels fuzz crash \
	histories chaos bench lint clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

setup: .venv/installed  ## create .venv and install hdfsstore with all extras into it

.venv/installed: pyproject.toml setup.py $(CEXT) tools/bootstrap.sh
	sh tools/bootstrap.sh "$(PYTHON)"
	touch $@

demo: setup  ## run a streaming query on a real Spark, open its checkpoint and repair it
	sh tools/with-java.sh $(BIN)/python -m demo

check: setup lint  ## lint, types, and the unit and contract tests but the slowest: for the loop of someone who edits
	$(BIN)/python -m pytest -q -p no:benchmark -n logical --dist worksteal -m "not thorough" \
		--hypothesis-profile quick tests/unit tests/contract

test: setup  ## all tests but those on real servers, also those with a live Spark
	-@$(NEED_BROWSER)
	sh tools/with-java.sh $(BIN)/python -m pytest --ignore tests/integration

test-all: setup  ## repairs with every operator and layout of state, killed at every call: make test tries a few
	HDFSSTORE_REPAIR_MATRIX=1 sh tools/with-java.sh $(BIN)/python -m pytest \
	  tests/spark/test_repair_rewrite.py tests/spark/test_repair_edit.py tests/spark/test_repair_other_sparks.py \
	  tests/faults/test_repairs.py

test-services: setup  ## the tests on a real HDFS and a real MinIO, which they start
	-@$(NEED_GO)
	-@$(NEED_LIBHDFS)
	sh tools/with-java.sh $(BIN)/python -m pytest -p no:benchmark -n $$(( $$(nproc) * 3 / 2 )) --dist worksteal \
		--places hdfs,minio tests/integration tests/contract tests/unit/checkpoint

services: setup  ## start HDFS, MinIO and toxiproxy, say how to use them, and end them with Ctrl-C
	-@$(NEED_GO)
	sh tools/with-java.sh $(BIN)/python -m tests.services

test-asan: setup  ## the tests of the compiled modules on a build with AddressSanitizer and UndefinedBehaviorSanitizer
	sh tools/test-asan.sh

test-tsan: setup  ## the tests of threads on a build with ThreadSanitizer
	sh tools/test-tsan.sh

test-wheels: setup  ## sdist, a wheel for each Python of this machine, each used from an empty folder
	sh tools/test-wheels.sh

fuzz: setup  ## damage checkpoint files and codec input for FUZZ_SECONDS (60)
	$(BIN)/python -m tests.fuzz --seconds $(or $(FUZZ_SECONDS),60)

crash: setup  ## kill a store's writer at each call that writes, 1000 times or for CRASH_SECONDS, and look what is left
	$(BIN)/python -m tests.faults $(if $(CRASH_SECONDS),--seconds $(CRASH_SECONDS),--kills 1000)

histories: setup  ## compare HISTORIES (1000) random histories of a store of each format with a model, on PLACES (local)
	HDFSSTORE_HISTORIES=$(or $(HISTORIES),1000) sh tools/with-java.sh $(BIN)/python -m pytest \
		tests/unit/state/hdfs/test_state_machine.py --places $(or $(PLACES),local)

chaos: setup  ## run HISTORIES (500) random histories of queries with faults on Spark, or for CHAOS_SECONDS, on PLACES
	sh tools/with-java.sh $(BIN)/python -m tests.chaos --places $(or $(PLACES),local) $(CHAOS_ARGS) \
		$(if $(CHAOS_SECONDS),--seconds $(CHAOS_SECONDS),--histories $(or $(HISTORIES),500))

bench: setup  ## the benchmarks, Spark beside us in the same run
	sh tools/with-java.sh $(BIN)/python -m pytest bench -o testpaths=bench $(BENCH_ARGS)

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:  ## remove everything that was built
	rm -rf .venv build dist ./*.egg-info hdfsstore/_cext/*.so hdfsstore/_cext/*.pyi cext/*.c cext/*.cpp
