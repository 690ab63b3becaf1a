# Works with GNU make 3.81, the one that macOS ships.
#
#   make demo PYTHON=/path/to/python3.12    another interpreter
#   make test ARGS="-k publish"             any of pytest's options
#   make test WORKERS=2                     fewer tests side by side
#   make soak MINUTES=2                     another length
#   make mutants SEED=2 COUNT=20 ARGS=--all other defects, and the survivors on all of `make test`
#   make lock UPGRADE=1                     newest versions instead of the locked ones

# Candidates, first fit: Perago runs on 3.11 to 3.13.
PYTHON ?= python3 python3.13 python3.12 python3.11
# More than cores: while one test waits for a server or a lease, others work.
WORKERS ?= 4
ARGS ?=
MINUTES ?= 20
COUNT ?= 60
SEED ?= 1
UPGRADE ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := $(wildcard src tests examples bench)
RESULTS := build/results
QUICK := tests/unit tests/property tests/contract tests/architecture

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo setup servers lakefs conductor jars spark-archive quick test check lint types layers \
	dependencies security audit format torture soak mutants bench wheel lock clean distclean

help: ## List these targets
	@echo "Perago: typed Python worker runtime that makes data tasks safe"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.demo ## Set up and run the demo (needs Java 17)
	@$(BIN)/perago demo $(ARGS)

setup: $(VENV)/.dev ## Set up the development environment in .venv

# Before the tests, which have a time limit. Exit code 3: this machine cannot have that program.
GO_ON = test $$? -eq 3 && echo "make: going on without; tests that need it are skipped" >&2

servers: $(VENV)/.dev ## Get lakeFS (needs Go, once), Conductor (needs Maven, once) and Spark's jars for tests
	@$(MAKE) --no-print-directory --jobs=4 lakefs conductor jars spark-archive

lakefs conductor: $(VENV)/.dev
	@$(BIN)/perago dev build $@ || { $(GO_ON); }

jars: $(VENV)/.dev
	@PERAGO_SPARK_TABLES=delta $(BIN)/perago jars || { $(GO_ON); }

# Needs the jars: the archive includes their classes.
spark-archive: jars
	@$(BIN)/python -m tests.spark_archive

quick: $(VENV)/.dev ## Run the tests that need no server and no Java (3 minutes)
	@$(BIN)/python -m pytest $(QUICK) -n 2 --dist loadgroup \
		-m "not (slow or spark or lakefs or conductor or torture)" --results=$(RESULTS)/quick $(ARGS)

# Coverage is also written after failed tests; the first failure is the exit code.
test: $(VENV)/.dev servers ## Run all tests but the torture ones, with branch coverage (15 minutes)
	@mkdir -p $(RESULTS)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --cov --cov-report= --results=$(RESULTS)/test \
		$(ARGS); code=$$?; \
	$(BIN)/coverage report > $(RESULTS)/coverage.txt; \
	echo "Coverage: $$($(BIN)/coverage report --format=total) %, by file in $(RESULTS)/coverage.txt"; \
	exit $$code
	$(if $(ARGS),,@$(BIN)/coverage report --fail-under=95 > /dev/null \
		|| { echo "make: coverage is below 95 % of lines and branches" >&2; exit 1; })
	$(if $(ARGS),,@$(BIN)/coverage report --include='src/perago/domain/*' --fail-under=100 \
		|| { echo "make: coverage of the domain is below 100 % of lines and branches" >&2; exit 1; })

check: lint types layers dependencies security ## Lint, format, types, layers, dependencies, bandit

lint: $(VENV)/.dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(VENV)/.dev
	$(BIN)/mypy $(CODE)

layers: $(VENV)/.dev
	@echo $(BIN)/lint-imports
	@mkdir -p $(RESULTS)
	@$(BIN)/lint-imports > $(RESULTS)/layers.txt 2>&1 || { cat $(RESULTS)/layers.txt; exit 1; }
	@tail -n 2 $(RESULTS)/layers.txt

dependencies: $(VENV)/.dev
	$(BIN)/deptry .

security: $(VENV)/.dev
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

# Apart from `check`: its answer changes with the world, not with the code. Error 1: vulnerabilities are
# known; 3: no advisory data to be had, which is no green light. (make's own exit code is 2 for both.)
audit: $(VENV)/.dev ## Ask whether a locked version has a known vulnerability (needs the network)
	@$(BIN)/python -m tests.audit

format: $(VENV)/.dev ## Format and apply the safe fixes
	$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

torture: $(VENV)/.dev servers ## Run the long crash and race tests, on all the data (an hour)
	@$(BIN)/python -m pytest -m torture -n 2 --dist loadgroup --hypothesis-profile=torture --timeout=0 \
		--results=$(RESULTS)/torture $(ARGS)

soak: $(VENV)/.dev servers ## Watch a worker for MINUTES=20: memory, descriptors, threads
	@$(BIN)/python -m bench.soak --minutes $(MINUTES) $(ARGS)

mutants: $(VENV)/.dev $(if $(findstring --all,$(ARGS)),servers) ## Plant COUNT=60 defects, one at a time, and see whether `make quick` finds them
	@$(BIN)/python -m tests.mutants --count $(COUNT) --seed $(SEED) $(ARGS)

bench: $(VENV)/.dev ## Run the benchmarks
	@$(BIN)/python -m bench $(ARGS)

wheel: $(VENV)/.dev ## Build the wheel into dist and look inside
	@rm -rf dist
	@mkdir -p $(RESULTS)
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist . > $(RESULTS)/wheel.txt 2>&1 \
		|| { cat $(RESULTS)/wheel.txt; exit 1; }
	@$(BIN)/python -m zipfile -l dist/*.whl | grep '^perago/py\.typed ' > /dev/null \
		|| { echo "make: the wheel lacks perago/py.typed" >&2; exit 1; }
	@ls dist/*.whl

# dev is resolved first; the smaller locks take their versions from it. Extras are kept: with hashes,
# pip takes `coverage[toml]` for unpinned where the lock has `coverage` alone, once there is a newer one.
COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-strip-extras --custom-compile-command 'make lock' \
	$(if $(UPGRADE),--upgrade)

lock: $(VENV)/.dev ## Resolve pyproject.toml again into requirements/*.txt
	$(COMPILE) --extra demo --extra connect --extra testing --extra telemetry --extra servers --group dev -o requirements/dev.txt
	$(COMPILE) --extra demo --group build -c requirements/dev.txt -o requirements/demo.txt
	$(COMPILE) -c requirements/dev.txt -o requirements/runtime.txt
	$(COMPILE) --extra telemetry -c requirements/dev.txt -o requirements/worker.txt
	$(COMPILE) --extra telemetry --extra connect -c requirements/dev.txt -o requirements/worker-spark.txt
	@if grep -n '://' requirements/*.txt; then \
		echo "make: a lock names a host" >&2; exit 1; fi

clean: ## Remove caches and build output
	rm -rf build dist .coverage .coverage.* htmlcov .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## The same, and remove .venv
	rm -rf $(VENV)

# Set-up: each stamp is written last, so that an interrupted set-up starts again.

$(VENV)/.created:
	@for python in $(PYTHON); do \
		if "$$python" -c '$(FITS)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "make: Perago needs Python 3.11, 3.12 or 3.13, and none of these is one: $(PYTHON). Name yours with: make PYTHON=/path/to/python3.12 ..." >&2; \
		exit 1; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "make: $$found has no venv module; install it first (Debian, Ubuntu: apt install python3-venv)." >&2; \
		exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$("$$found" --version). This happens once."; \
	"$$found" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.created requirements/demo.txt pyproject.toml
	@echo "Installing what the demo needs, from requirements/demo.txt ..."
	@$(PIP) install --use-pep517 --require-hashes -r requirements/demo.txt
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.created requirements/dev.txt pyproject.toml
	@echo "Installing the development tools, from requirements/dev.txt ..."
	@$(PIP) install --use-pep517 --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@ $(VENV)/.demo
