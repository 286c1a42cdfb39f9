# `make` alone says what there is to make.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
SAM := .tools/sam/bin/sam
WHEEL_TOOLS := .tools/wheel
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' layers/core/dlq_replay/__init__.py)
IMAGE := sqs-dlq-replay:$(VERSION)
CLASSES := .tools/spark-classes.jsa
# Files of tests share the cores; their order is kept, since what takes longest comes first.
SIDE_BY_SIDE := --numprocesses auto --dist loadfile --no-loadscope-reorder
# The tests that hold the core, and the least share in per cent of its lines and branches that they may reach.
CORE_TESTS := tests/unit/dlq_replay tests/unit/functions $(foreach of,\
	breaker_laws fault_laws heartbeat_laws laws returns_laws values,tests/property/test_$(of).py)
CORE_COVERAGE := 95
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --require-hashes -r

export SAM_CLI_TELEMETRY := 0
export PYTHONPATH := layers/core
# Each test process compiles everything again otherwise, and tests start many.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-test setup-demo java chromium demo test test-all coverage mutants snapshot lint format types size style docs docs-site pictures build \
	validate processed-template sam-local version wheel image spark-package release publish check bench accuracy soak outages lock clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z -]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-demo ## Watch messages fail, back off, get parked, be explained and be put right [INPUT=path.jsonl] [QUEUE=fifo] [CONSOLE=1]
	@$(BIN)/python -m demo $(if $(INPUT),--input "$(INPUT)") $(if $(QUEUE),--queue $(QUEUE)) $(if $(CONSOLE),--console) $(DEMO_OPTIONS)

test: setup-test ## Run the quick tests, on a fresh machine too [ARGS="-k name"]
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(if $(CI),,--hypothesis-profile quick) -m "not slow" $(ARGS)

test-all: setup ## Run all tests but the soaks; without ARGS, print which branches they miss [ARGS="-k name"]
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) --ignore tests/soak $(or $(ARGS),--cov)

# Hypothesis repeats one search, so that a change alone moves the number.
coverage: setup-test ## Measure which branches of the core its own tests miss; fails below CORE_COVERAGE
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) --hypothesis-profile ci $(CORE_TESTS) \
		--cov layers/core/dlq_replay --cov-fail-under $(CORE_COVERAGE)

mutants: setup-test ## Put each fault of tests/mutants.toml into a copy: its tests must fail [ARGS="lock"]
	@$(BIN)/python scripts/mutants.py $(ARGS)

snapshot: setup-test ## Write tests/contract/stacks.yaml and tests/golden again: read how they differ
	@SNAPSHOT=1 $(BIN)/python -m pytest -q $$(grep -rlE "assert_(stored|page)|SNAPSHOT" tests --include "test_*.py")

lint: setup ## Style, import rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo

format: setup ## Format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

types: setup ## Check types, strictly
	@$(BIN)/mypy

size: ## Compare statements and words with size.toml; warns, never fails
	@$$(scripts/find-python.sh) scripts/size.py

style: ## Measure how densely the code is written
	@$$(scripts/find-python.sh) scripts/style.py

validate: $(SAM) ## Check the SAM templates
	@for template in template.yaml templates/*.yaml; do \
		$(SAM) validate --lint --template "$$template" || exit 1; done

bench: setup ## Compare the product with the alternatives; exit 1 if a target is missed [BENCH_OPTIONS=--short]
	@$(BIN)/python -m benchmarks $(BENCH_OPTIONS)

accuracy: setup-test ## Measure how well failures are grouped, on data of your own DATA=FOLDER [ARGS=--failed]
	@PYTHONPATH=.:layers/core $(BIN)/python -m scripts.accuracy "$(DATA)" $(ARGS)

soak: setup ## Outages, and a redrive that is killed at 20 points or more [POINTS=20]
	@KILL_POINTS=$(or $(POINTS),20) $(BIN)/python -m pytest tests/soak tests/integration/test_killed_redrive.py

docs: setup ## Write the generated blocks of the documents
	@PYTHONPATH=.:layers/core $(BIN)/python -m scripts.generate_docs

docs-site: setup-test ## Build the site of the documents into .site/; fails for a link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site: .site/index.html"

pictures: setup chromium ## Draw every picture of docs/images anew: pages, dashboard, dry run, demo
	@PYTHONPATH=.:layers/core $(BIN)/python scripts/draw_pages.py
	@PYTHONPATH=.:layers/core $(BIN)/python scripts/draw_dashboard.py
	@PYTHONPATH=.:layers/core $(BIN)/python scripts/draw_dry_run.py
	@PYTHONPATH=.:layers/core $(BIN)/python scripts/draw_demo.py

outages: setup ## Simulate outages at full size, message by message; prints what the breaker saves
	@$(BIN)/python -m pytest -s tests/soak/test_outages.py $(ARGS)

build: $(SAM) ## Build the Lambda and its layer into .aws-sam/build
	@$(SAM) build

processed-template: setup-test build ## Write a template without a transform, for StackSets, and its code into dist/processed PREFIX=my-code
	@PYTHONPATH=.:layers/core $(BIN)/python -m scripts.processed_template "$(PREFIX)" dist/processed

sam-local: setup build ## Invoke the built function with events/ in a container [EVENT=standard]
	@scripts/ensure-docker.sh
	@$(BIN)/python -m demo.sam_local $(EVENT)

wheel: $(WHEEL_TOOLS)/.created ## Build the wheel of the dlq command into dist/; needs no other set-up
	@rm -f dist/sqs_dlq_replay-*.whl
	@$(WHEEL_TOOLS)/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@echo "pip install dist/$$(cd dist && echo sqs_dlq_replay-*.whl)"

version: ## Print the version that the code has
	@echo $(VERSION)

image: ## Build the container image of the dlq command [IMAGE=sqs-dlq-replay:0.1.0]
	@scripts/ensure-docker.sh
	@docker build --quiet --tag $(IMAGE) . >/dev/null
	@echo "docker run --rm --read-only --tmpfs /tmp $(IMAGE) --help"

spark-package: $(VENV)/.created ## Pack the Spark job for spark-submit into dist/
	@$(BIN)/python scripts/package_job.py dist
	@echo "spark-submit --py-files dist/spark_reprocess.zip dist/spark_job.py VERB ..."

release: wheel spark-package build ## Put what a release has into dist/: wheel, constraints, Spark job, application
	@cp requirements/constraints.txt dist/
	@cd .aws-sam && ../$(BIN)/python -m zipfile -c ../dist/application.zip build ../README-SAR.md ../LICENSE

publish: setup-test build ## Publish to the Serverless Application Repository; refused without a home page
	@$(BIN)/python scripts/require_home_page.py template.yaml
	@$(SAM) package --output-template-file .aws-sam/packaged.yaml
	@$(SAM) publish --template .aws-sam/packaged.yaml

check: lint types test-all validate build ## All that has to pass before a change lands

setup: setup-test chromium $(CLASSES) ## Make .venv with everything that tests need; find or install Java and Chromium

setup-test: $(VENV)/.dev java

setup-demo: $(VENV)/.demo java

java:
	@scripts/ensure-java.sh

chromium:
	@scripts/ensure-chromium.sh

lock: ## Lock the newest versions of what requirements/*.in name, with hashes
	@scripts/lock.sh

clean: ## Remove what was built, installed and kept by the demo
	rm -rf $(VENV) .tools .aws-sam .demo .site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.created: requirements/pip.txt
	@python=$$(scripts/find-python.sh) && echo "Setting up $(VENV) with $$python" && "$$python" -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) requirements/pip.txt
	@touch $@

# A finished dev set-up holds the demo's packages too.
$(VENV)/.demo: $(VENV)/.created requirements/demo.txt
	@test -e $(VENV)/.dev || echo "Installing packages (once, a minute or two)"
	@test $(VENV)/.dev -nt requirements/demo.txt || $(BIN)/python $(PIP_INSTALL) requirements/demo.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.created requirements/dev.txt
	@echo "Installing packages for tests (once, a minute or two)"
	@$(BIN)/python $(PIP_INSTALL) requirements/dev.txt
	@touch $@

# Without it tests are slower, that is all: not every Java can make one.
$(CLASSES): $(VENV)/.dev | java
	@echo "Archiving the classes that Spark loads, so that tests start it sooner (once, half a minute)"
	-@$(BIN)/python -m tests.support.class_archive $@

$(WHEEL_TOOLS)/.created: requirements/pip.txt requirements/build.txt
	@python=$$(scripts/find-python.sh) && "$$python" -m venv $(WHEEL_TOOLS)
	@$(WHEEL_TOOLS)/bin/python $(PIP_INSTALL) requirements/pip.txt
	@$(WHEEL_TOOLS)/bin/python $(PIP_INSTALL) requirements/build.txt
	@touch $@

$(SAM): requirements/sam.txt
	@python=$$(scripts/find-python.sh) && echo "Setting up the SAM CLI with $$python" && "$$python" -m venv .tools/sam
	@.tools/sam/bin/python $(PIP_INSTALL) requirements/pip.txt
	@.tools/sam/bin/python $(PIP_INSTALL) requirements/sam.txt
	@touch $@
