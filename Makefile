# Everything a person or a CI runs. `make` alone lists it.

SHELL := /bin/sh
VENV_PYTHON := .venv/bin/python
MINIMUM := import sys; sys.exit(sys.version_info < (3, 11))

# The first usable one; 3.11 is what is developed on.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c '$(MINIMUM)' 2>/dev/null && echo $$python && break; done)

FUZZ_SECONDS ?= 300
# Each runs one file of tests at a time, with servers of its own.
JOBS ?= 4
DDL_STATEMENTS ?= 5000
# In the order that tests/conftest.py gives: what waits for servers first, so that all jobs end together.
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Else each worker and each command compiles all modules again, which takes a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-platform demo-stop test test-long test-servers test-sink test-iceberg check crash crash-requests crash-brokers crash-existing audit-wide crash-sink soak day switch fuzz ddl-random bench bench-flat bench-large bench-new-tables bench-replay bench-routes bench-sink bench-takeover bench-sink-age bench-sink-aged bench-sink-fresh lock stack-up stack-down stack-status clean bench-snapshot

help: ## list what can be done
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-14s %s\n", $$1, $$2}'

setup: ## make .venv and fetch MySQL, Kafka, ZooKeeper and Spark's jars into .cache
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer was found; install one, \
	or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m devstack setup

demo: setup ## run the whole of it on real servers; KEEP=1 leaves them running
	@KEEP=$(KEEP) $(VENV_PYTHON) -m demo

demo-platform: setup ## two masters with four shards each as one logical database, under kills, for three groups of subscribers and the sink
	@$(VENV_PYTHON) -m demo.platform

demo-stop: ## end a demo that was left running
	@$(VENV_PYTHON) -m demo stop

test: setup ## run every test, JOBS=4 files at a time; it starts the servers it needs
	@$(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) $(ARGS)

test-long: setup ## the tests that take too long for make test, each of which names what make test has of it
	@LONG=all $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) -m long $(ARGS)
	@LONG=all $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) tests/properties $(ARGS)

test-servers: setup ## the tests that ask MySQL and MariaDB themselves, on every version from 5.5 on
	@SERVERS=all $(VENV_PYTHON) -m pytest tests/integration/baseline tests/integration/central_store \
		tests/integration/ddl tests/integration/ddl_tools tests/integration/mariadb tests/integration/old_mysql \
		tests/integration/process/test_snapshot_without_gtids.py tests/integration/process/test_server_defaults.py \
		tests/integration/snapshot/test_read_views.py $(ARGS)

test-sink: setup ## every test of the sink, those too that take too long for make test
	@LONG=all $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) tests/unit/spark_sink tests/integration/spark_sink \
		tests/integration/process/test_hostile_names.py $(ARGS)

test-iceberg: setup ## every test of the sink on a warehouse in Iceberg
	@SINK_FORMAT=iceberg LONG=all $(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) tests/unit/spark_sink tests/contract/test_columns.py \
		tests/contract/test_dead_letters.py tests/contract/test_recent_changes.py tests/contract/test_warehouses.py \
		tests/crash/test_sink_quick.py tests/integration/spark_sink $(ARGS)

check: setup ## lint, formatting, types, and every test
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@$(VENV_PYTHON) -m pytest $(SIDE_BY_SIDE) $(ARGS)

crash: setup ## kill, cut, freeze and forge on real servers, then say what was lost; ONLY=kill, SEED=7, PART=1/3; PEERS=1 hurts Debezium
	@$(VENV_PYTHON) -m tests.crash$(if $(PEERS),.peers) $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) $(if $(PART),--part $(PART))

crash-requests: setup ## several workers: each command to each destination while workers come and go; strangers in the journal
	@$(VENV_PYTHON) -m pytest tests/crash/requests.py tests/crash/shared_journal.py

crash-brokers: setup ## three brokers: two are stopped and a disk is lost; nothing committed is
	@$(VENV_PYTHON) -m pytest tests/crash/brokers_lost.py

crash-existing: setup ## existing rows, read in a storm of DML and DDL: killed at each step, taken over, and with broken guards; ROUNDS=3, SEED=7
	@ROUNDS=$(ROUNDS) SEED=$(SEED) $(VENV_PYTHON) -m pytest tests/crash/existing/kills.py tests/crash/existing/mutants.py -s $(ARGS)

crash-sink: setup ## the sink, killed before and after each of its writes, and worse: nothing is lost or repeated; ONLY=table, ROUNDS=3, SEED=7
	@ONLY=$(ONLY) ROUNDS=$(ROUNDS) SEED=$(SEED) $(VENV_PYTHON) -m pytest tests/crash/sink_batches.py tests/crash/sink_upkeep.py -s

soak: setup ## the worst server defaults, other installations, DDL, mappings, masks and kills at once for SECONDS=3600, then audited; SEED=7
	@$(VENV_PYTHON) -m tests.crash.soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

audit-wide: setup ## every type, image, character set and kind of transaction on every MySQL: an audit finds no fault; EVERY=40 is shorter
	@AUDIT=all SERVERS=all EVERY=$(EVERY) $(VENV_PYTHON) -m pytest tests/integration/auditing/test_innocent.py tests/crash/innocent.py -s $(ARGS)

day: setup ## TROUBLES=20 of single tables among thirty, each ended by the commands that are printed for it, while all others go on; SEED=7
	@$(VENV_PYTHON) -m tests.crash.day $(if $(TROUBLES),--troubles $(TROUBLES)) $(if $(SEED),--seed $(SEED))

switch: setup ## a Debezium connector and a Canal server, each switched to Aqueduct under load for a consumer that is never informed
	@$(VENV_PYTHON) -m pytest tests/crash/peers/switch_debezium.py tests/crash/peers/switch_canal.py tests/crash/peers/switch_modes.py -s $(ARGS)

fuzz: setup ## break binlogs and decode them for FUZZ_SECONDS=300; prints how to run a case again
	@$(VENV_PYTHON) -m tests.fuzz --seconds $(FUZZ_SECONDS)

ddl-random: setup ## DDL_STATEMENTS=5000 random statements on each server and on the model; DDL_SEED=n runs them again
	@DDL_STATEMENTS=$(DDL_STATEMENTS) DDL_SEED=$(DDL_SEED) \
		$(VENV_PYTHON) -m pytest tests/integration/ddl/test_random.py tests/integration/ddl/test_random_of_one_table.py -s $(ARGS)

bench: setup ## ours and Debezium, side by side on two workloads; PEERS=all adds others, RUNS=1 is shorter
	@PEERS=$(PEERS) RUNS=$(RUNS) $(VENV_PYTHON) -m bench

bench-flat: setup ## what a row costs from 10,000 to ROWS=10000000 rows, with 1 and 500 tables, or skipped
	@ROWS=$(ROWS) KEEP=$(KEEP) $(VENV_PYTHON) -m bench.flat

bench-large: setup ## one transaction of ROWS=10000000 rows, the worker killed in its midst, another source beside
	@ROWS=$(ROWS) $(VENV_PYTHON) -m bench.large

bench-new-tables: setup ## TABLES=1,1000,3000 new tables with a row each: how long they wait, and what waits with them
	@TABLES=$(TABLES) $(VENV_PYTHON) -m bench.new_tables

bench-replay: setup ## how many statements of DDL the model of all tables takes in a second, beside sqlglot's parser
	@$(VENV_PYTHON) -m bench.replay

bench-routes: setup ## what a mapping of 5,000 tables costs, by its rules; and 512 tables in eight topics; RUNS=1 is shorter
	@RUNS=$(RUNS) $(VENV_PYTHON) -m bench.routes

bench-snapshot: setup ## rows that exist already, ours and Debezium's: ROWS=2000000 of one table, TABLES=200 of 10,000; RUNS=1 is shorter
	@RUNS=$(RUNS) ROWS=$(ROWS) TABLES=$(TABLES) $(VENV_PYTHON) -m bench.snapshot

bench-takeover: setup ## takeovers from a journal of one day and of 30; BEFORE=1 adds Kafka's own settings
	@BEFORE=$(BEFORE) $(VENV_PYTHON) -m bench.takeover_age

bench-sink: setup ## a backlog brought into the warehouse, beside a simple job on the same topics; RUNS=1 and ONLY=W2 are shorter
	@RUNS=$(RUNS) ONLY='$(ONLY)' SINK='$(SINK)' $(VENV_PYTHON) -m bench.sink

bench-sink-age: setup ## a real sink from a real Kafka through BATCHES=20000 batches: hours; ended, it continues where it was
	@BATCHES=$(BATCHES) $(VENV_PYTHON) -m bench.sink_run

bench-sink-fresh: setup ## seconds from a commit to a reader of the warehouse: TABLES=20, PER_SECOND=60 changes, for SECONDS=60
	@TABLES=$(TABLES) PER_SECOND=$(PER_SECOND) SECONDS=$(SECONDS) SINK='$(SINK)' $(VENV_PYTHON) -m bench.sink_fresh

bench-sink-aged: setup ## the same with most batches added as Delta commits: half an hour; BATCHES=20000
	@FOLDER=.run/bench/sink_aged RETENTION_MINUTES=1 BATCHES=$(BATCHES) $(VENV_PYTHON) -m bench.sink_aged

lock: ## pin anew in requirements.lock what pyproject.toml asks for, with all hashes
	@test -x .cache/uv/bin/uv || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install -q uv==0.13.8; }
	@.cache/uv/bin/uv pip compile pyproject.toml --quiet --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-build-isolation --output-file requirements.lock

stack-up: setup ## start MySQL, Kafka and ZooKeeper, and leave them running
	@$(VENV_PYTHON) -m devstack up

stack-down: ## end them; their data stay in .run
	@$(VENV_PYTHON) -m devstack down

stack-status: ## say which of them run, and where
	@$(VENV_PYTHON) -m devstack status

clean: ## end the servers; remove their data, and all that was downloaded or installed
	@test ! -x $(VENV_PYTHON) || $(VENV_PYTHON) -m devstack down
	@rm -rf .run .cache .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
