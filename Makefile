# Everything an operator, a developer or a CI runs. `make` alone lists it.

SHELL := /bin/sh
VENV_PYTHON := .venv/bin/python
MINIMUM := import sys; sys.exit(sys.version_info < (3, 11))

# The first usable one; 3.11 is what is developed on.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c '$(MINIMUM)' 2>/dev/null && echo $$python && break; done)

# Each runs one file of tests at a time, with servers of its own.
JOBS ?= 4
# In the order that tests/conftest.py gives: what waits for servers first, so that all jobs end together.
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
PYTEST = $(VENV_PYTHON) -m pytest

# Else each worker and each command compiles all modules again, which takes a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-stop test check crash bench fuzz docs lock stack clean

help: ## list the targets, with the suites of each
	@sed -n -e 's/^\([a-z-]*\):.*## /make \1|/p' -e 's/^[a-z]*_\([a-z-]*\) = .*## /    SUITE=\1|/p' $(MAKEFILE_LIST) | \
		awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

setup: ## make .venv and fetch MySQL, Kafka, ZooKeeper and Spark's jars into .cache
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer was found; install one, \
	or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m devstack setup

demo: setup ## run all of it on real servers; KEEP=1 leaves them running; PLATFORM=1: eight shards on two masters as one logical database
	@KEEP=$(KEEP) $(VENV_PYTHON) -m demo$(if $(PLATFORM),.platform)

demo-stop: ## end a demo that was left running
	@$(VENV_PYTHON) -m demo stop

test: setup ## run every test but the slow ones, JOBS=4 files at a time, with the servers that they need; ARGS='…' goes to pytest
	@$(call run,test,all)

test_all = $(PYTEST) $(SIDE_BY_SIDE) $(ARGS)
test_long = LONG=all $(PYTEST) $(SIDE_BY_SIDE) -m long $(ARGS) && LONG=all $(PYTEST) $(SIDE_BY_SIDE) tests/properties $(ARGS) ## the slow ones; each names what make test has of it
test_servers = SERVERS=all $(PYTEST) $(ASKING_SERVERS) $(ARGS) ## those that ask MySQL and MariaDB, on every version from 5.5 on
test_sink = LONG=all $(PYTEST) $(SIDE_BY_SIDE) $(OF_THE_SINK) $(ARGS) ## those of the sink, the slow ones too
test_iceberg = SINK_FORMAT=iceberg LONG=all $(PYTEST) $(SIDE_BY_SIDE) $(IN_ICEBERG) $(ARGS) ## those of the sink, on a warehouse in Iceberg
test_audit = AUDIT=all SERVERS=all $(PYTEST) $(AUDITED) -s $(ARGS) ## every type, image, character set and transaction on every MySQL is audited; EVERY=40 is shorter

ASKING_SERVERS = tests/integration/baseline tests/integration/central_store \
	tests/integration/ddl tests/integration/ddl_tools tests/integration/mariadb tests/integration/old_mysql \
	tests/integration/process/test_snapshot_without_gtids.py tests/integration/process/test_server_defaults.py \
	tests/integration/snapshot/test_read_views.py
OF_THE_SINK = tests/unit/spark_sink tests/integration/spark_sink tests/integration/process/test_hostile_names.py
IN_ICEBERG = tests/unit/spark_sink tests/contract/test_columns.py \
	tests/contract/test_dead_letters.py tests/contract/test_recent_changes.py tests/contract/test_warehouses.py \
	tests/crash/test_sink_quick.py tests/integration/spark_sink
AUDITED = tests/integration/auditing/test_innocent.py tests/crash/innocent.py

check: setup ## lint, formatting, types, and make test
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@$(call run,test,all)

crash: setup ## break it on real servers, and verify everything that was published; SEED=7 repeats a run
	@$(call run,crash,worker)

crash_worker = $(VENV_PYTHON) -m tests.crash $(if $(ONLY),--only $(ONLY)) $(SEEDED) $(if $(PART),--part $(PART)) ## the default: the worker, MySQL and Kafka killed, cut off, frozen, forged; ONLY=kill, PART=1/3
crash_debezium = $(VENV_PYTHON) -m tests.crash.peers $(if $(ONLY),--only $(ONLY)) $(SEEDED) $(if $(PART),--part $(PART)) ## the same faults for Debezium
crash_requests = $(PYTEST) tests/crash/requests.py tests/crash/shared_journal.py ## several workers: each command to each destination while workers come and go
crash_brokers = $(PYTEST) tests/crash/brokers_lost.py ## three brokers: two are stopped and a disk is lost
crash_existing = $(PYTEST) tests/crash/existing/kills.py tests/crash/existing/mutants.py -s $(ARGS) ## existing rows read during DML and DDL, killed at each step, and with broken guards; ROUNDS=3
crash_sink = $(PYTEST) tests/crash/sink_batches.py tests/crash/sink_upkeep.py -s ## the sink, killed before and after each of its writes; ONLY=table, ROUNDS=3; SINK_FORMAT=iceberg
crash_soak = $(VENV_PYTHON) -m tests.crash.soak $(if $(SECONDS),--seconds $(SECONDS)) $(SEEDED) ## the worst server defaults, DDL, mappings, masks and kills at once for SECONDS=3600, then audited
crash_day = $(VENV_PYTHON) -m tests.crash.day $(if $(TROUBLES),--troubles $(TROUBLES)) $(SEEDED) ## TROUBLES=20 of single tables among thirty, each ended by the commands that are printed for it
crash_switch = $(PYTEST) $(SWITCHED) -s $(ARGS) ## a Debezium connector and a Canal server, each replaced by Aqueduct under load

SEEDED = $(if $(SEED),--seed $(SEED))
SWITCHED = tests/crash/peers/switch_debezium.py tests/crash/peers/switch_canal.py tests/crash/peers/switch_modes.py

bench: setup ## measure, beside other programs on the same data; RUNS=1 is shorter
	@$(call run,bench,worker)

bench_worker = $(VENV_PYTHON) -m bench ## the default: the worker and Debezium, side by side on two workloads; PEERS=all adds others
bench_flat = $(VENV_PYTHON) -m bench.flat ## a row's cost from 10,000 to ROWS=10000000 rows, with 1 and 500 tables, or skipped
bench_large = $(VENV_PYTHON) -m bench.large ## one transaction of ROWS=10000000 rows, the worker killed within it
bench_new-tables = $(VENV_PYTHON) -m bench.new_tables ## TABLES=1,1000,3000 new tables with a row each: how long they wait
bench_replay = $(VENV_PYTHON) -m bench.replay ## DDL statements that the model of all tables applies in a second, beside sqlglot's parser
bench_routes = $(VENV_PYTHON) -m bench.routes ## what a mapping of 5,000 tables costs, by its rules; and 512 tables in eight topics
bench_snapshot = $(VENV_PYTHON) -m bench.snapshot ## existing rows, ours and Debezium's: ROWS=2000000 of one table, TABLES=200 of 10,000
bench_takeover = $(VENV_PYTHON) -m bench.takeover_age ## takeovers from a journal of one day and of 30; BEFORE=1 adds Kafka's own settings
bench_sink = $(VENV_PYTHON) -m bench.sink ## a backlog brought into the warehouse, beside a simple job; ONLY=W2, SINK='{…}' settings
bench_sink-fresh = $(VENV_PYTHON) -m bench.sink_fresh ## seconds from a commit to a reader: TABLES=20, PER_SECOND=60 changes, for SECONDS=60
bench_sink-age = $(VENV_PYTHON) -m bench.sink_run ## a sink from Kafka through BATCHES=20000 batches: hours; ended, it continues
bench_sink-aged = FOLDER=.run/bench/sink_aged RETENTION_MINUTES=1 $(VENV_PYTHON) -m bench.sink_aged ## the same with most batches added as Delta commits: half an hour

fuzz: setup ## generate input that nobody wrote, and compare with the server; each prints how to run a case again
	@$(call run,fuzz,binlog)

fuzz_binlog = $(VENV_PYTHON) -m tests.fuzz --seconds $(or $(SECONDS),300) ## the default: binlogs broken and decoded for SECONDS=300
fuzz_ddl = STATEMENTS=$(or $(STATEMENTS),5000) $(PYTEST) $(RANDOM_DDL) -s $(ARGS) ## STATEMENTS=5000 random DDL statements on each server and on the model; SEED=7

RANDOM_DDL = tests/integration/ddl/test_random.py tests/integration/ddl/test_random_of_one_table.py

docs: setup ## write the generated pages: docs/remedies.md and docs/folders.md
	@$(VENV_PYTHON) -m tests.architecture.remedies
	@$(VENV_PYTHON) -m tests.architecture.folders

lock: ## pin in the lock files what pyproject.toml asks for, with all hashes
	@test -x .cache/uv/bin/uv || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install -q uv==0.13.8; }
	@$(PIN) --all-extras --output-file requirements.lock
	@$(PIN) --output-file requirements.worker.lock

PIN = .cache/uv/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-build-isolation

stack: setup ## start MySQL, Kafka and ZooKeeper, and leave them running; DO=status shows them, DO=down ends them
	@$(VENV_PYTHON) -m devstack $(or $(DO),up)

clean: ## end the servers; remove their data, and all that was downloaded or installed
	@test ! -x $(VENV_PYTHON) || $(VENV_PYTHON) -m devstack down
	@rm -rf .run .cache .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The command of a target's suite: of $(SUITE), or of its default. Variables of the command line are in its environment.
run = $(or $($(1)_$(or $(SUITE),$(2))),echo "make: $(1) has no SUITE=$(SUITE); see make help" >&2; exit 2)
