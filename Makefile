# Everything runs in environments inside the checkout, made from the locks in requirements/.
# PYTHON=/path/to/python3 chooses the interpreter; ARGS="..." goes to pytest or to the benchmark.
.DELETE_ON_ERROR:
.PHONY: help setup demo test e2e before-release chaos histories kills exactly-once outages simulate mutations lint charts docs fmt types images classes generate bench-alloc bench-pull \
	bench-handover bench-messages bench-send bench-spark bench-operator bench-footprint lock check clean
IN_DEV = .venv/bin/python -m
# Tests start hundreds of Python processes. Without bytecode files, each would compile the code again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' Makefile

setup: .venv/ready ## Make .venv from requirements/dev.txt and install this checkout in it, if they have changed

demo: setup ## Show a group's life in two minutes: a real RocketMQ, a real Spark, executors that join, leave and die
	@$(IN_DEV) demo

test: setup ## Run all tests, in two processes; ARGS="-k sticky --seed 7 -n 0" goes to pytest, and -n 0 keeps it to one
	@$(if $(ARGS),,$(IN_DEV) sandbox build || true)
	@$(IN_DEV) pytest -n auto $(ARGS)

e2e: setup ## Test everything on its own node; needs root, takes minutes. ARGS goes to pytest
	@$(IN_DEV) sandbox node build
	@$(IN_DEV) pytest -x tests/e2e/test_story.py tests/e2e/test_leaving.py $(ARGS)

before-release: setup ## Test an upgrade of the chart and back under a job, and the examples; takes minutes. ARGS goes to pytest
	@$(IN_DEV) pytest tests/real/before_release $(ARGS)

chaos: setup ## Play random events with a group on its own node; needs root. ARGS="--seed 7" repeats them
	@$(IN_DEV) sandbox node build
	@$(IN_DEV) pytest tests/e2e/test_chaos.py $(ARGS)

histories: setup ## Play random histories of one queue: deletions, slaves that lag, resets; takes minutes. ARGS="--seed 7" repeats them
	@$(IN_DEV) pytest tests/histories/test_histories.py $(ARGS)

kills: setup ## Play random histories of jobs whose processes are killed and frozen; takes hours. ARGS="-k flow --histories 50 --seed 7"
	@$(IN_DEV) pytest tests/kills/test_kills.py $(ARGS)

exactly-once: setup ## Kill and freeze followers that keep positions, over 200,000 messages; takes minutes. ARGS="--seed 7" repeats them
	@$(IN_DEV) pytest tests/real/test_exactly_once.py --messages 200000 $(ARGS)

outages: setup ## Test the operator during three outages of the API server, two minutes each; ARGS goes to pytest
	@$(IN_DEV) pytest tests/real/cluster/test_outages.py --outage-seconds 120 $(ARGS)

simulate: setup ## Play random stories of coordinator and members in virtual time; ARGS="--seconds 600" plays longer
	@$(IN_DEV) tests.simulation $(ARGS)

mutations: setup ## Break the code line by line, and check that tests fail; takes minutes
	@$(IN_DEV) tests.mutations $(ARGS)

lint: setup types charts docs ## Check style, types, layers, spelling, the chart, the documentation, and the contents of tracked files
	@$(IN_DEV) ruff check .
	@$(IN_DEV) ruff format --check .
	@.venv/bin/lint-imports
	@$(IN_DEV) codespell_lib
	@$(IN_DEV) tests.tracked_files

charts: setup ## Check the chart with helm and kubeconform, and the alert rules with promtool
	@$(IN_DEV) tests.chart_checks
	@$(IN_DEV) tests.rule_checks

docs: setup ## Build the documentation, with all its links checked, into build/site
	@NO_MKDOCS_2_WARNING=1 $(IN_DEV) mkdocs build --strict

fmt: setup ## Format the code and fix what ruff can fix
	@$(IN_DEV) ruff check --fix-only .
	@$(IN_DEV) ruff format .

types: setup ## Check the types
	@$(IN_DEV) mypy

bench-alloc: .venv-bench/ready ## Measure the allocation engine against its peers
	@.venv-bench/bin/python -m benchmarks.alloc $(ARGS)

bench-pull: .venv-bench/ready ## Measure the RocketMQ client against its peers
	@.venv-bench/bin/python -m benchmarks.pull $(ARGS)

bench-messages: .venv-bench/ready ## Measure pops of single messages against RocketMQ's own consumer
	@.venv-bench/bin/python -m benchmarks.messages $(ARGS)

bench-handover: .venv-bench/ready ## Measure how queues are handed over, compared with RocketMQ's own consumers; needs root, takes minutes
	@.venv-bench/bin/python -m benchmarks.handover $(ARGS)

bench-send: .venv-bench/ready ## Measure what a slow broker costs a producer, compared with RocketMQ's own
	@.venv-bench/bin/python -m benchmarks.send $(ARGS)

bench-spark: .venv-bench/ready ## Measure the data source and the pinned job in Spark; takes minutes
	@.venv-bench/bin/python -m benchmarks.spark $(ARGS)

bench-operator: .venv-bench/ready ## Measure the operator on a real API server; takes minutes
	@.venv-bench/bin/python -m benchmarks.operator $(ARGS)

bench-footprint: .venv-bench/ready ## Measure memory and CPU of operator, driver and executors on a real node; needs root, takes minutes
	@.venv-bench/bin/python -m benchmarks.footprint $(ARGS)

images: setup ## Build the images with docker or buildah; ARGS="--base IMAGE" goes to the build
	@$(IN_DEV) sandbox images build $(ARGS)

classes: setup ## Renew the list of classes for the Spark image's archive after an update of Spark or Java; needs root
	@$(IN_DEV) sandbox.node.classes images/spark/classes.gz

generate: setup ## Write all generated files: crds/, parts of the chart and of docs/
	@$(IN_DEV) generate

lock: setup ## Update every pinned version in requirements/
	@$(IN_DEV) uv pip compile $(ALL_PARTS) requirements/dev.in -o requirements/dev.txt $(LOCK_OPTIONS)
	@$(IN_DEV) uv pip compile requirements/images/build.in -o requirements/images/build.txt $(LOCK_OPTIONS)
	@$(IN_DEV) uv pip compile requirements/cli.in requirements/mq.in requirements/operator.in -c requirements/dev.txt -o requirements/images/operator.txt $(LOCK_OPTIONS)
	@$(IN_DEV) uv pip compile requirements/mq.in requirements/arrow.in requirements/spark.in requirements/images/spark.in -c requirements/dev.txt -o requirements/images/spark.txt $(LOCK_OPTIONS)
	@$(IN_DEV) uv pip compile $(ALL_PARTS) requirements/bench.in -o requirements/bench.txt $(LOCK_OPTIONS)

check: lint test ## Lint and test; the pipeline runs e2e as well

clean: ## Remove what the other targets created
	@rm -rf .venv .venv-bench .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@rm -rf build *.egg-info
	@find . -name __pycache__ -prune -exec rm -rf {} +

ALL_PARTS = $(patsubst %,requirements/%.in,cli mq arrow spark follower operator)
LOCK_OPTIONS = --quiet --upgrade --generate-hashes --universal --python-version 3.11 \
	--no-emit-index-url --custom-compile-command "make lock"

.venv/ready: requirements/dev.txt pyproject.toml
	@.ci/setup .venv requirements/dev.txt

.venv-bench/ready: requirements/bench.txt pyproject.toml
	@.ci/setup .venv-bench requirements/bench.txt
