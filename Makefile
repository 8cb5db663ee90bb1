# agentstream: OpenCode agents as server-sent events, an nginx module.
# "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.SUFFIXES:

# The targets that users name are made in order; PARALLEL is set where many
# files are compiled.
ifndef PARALLEL
.NOTPARALLEL:
endif

MODULE := ngx_http_agentstream_module

BUILD ?= build
JOBS ?= 2
FUZZ_SECONDS ?= 60
TESTS ?= $(sort $(wildcard t/*.t))

# Files that "sudo make" has left cannot be written without sudo.
FOREIGN := $(shell [ "$$(id -u)" = 0 ] || find $(BUILD) -maxdepth 3 \
	! -type l ! -user "$$(id -u)" ! -writable -print -quit 2>/dev/null)

ifneq ($(FOREIGN),)
$(error $(FOREIGN) is not yours, perhaps of an earlier "sudo make": use \
	sudo again, or "sudo chown -R $$USER $(BUILD)")
endif

# Evaluated late, because "deps" may install both in the same run.
NGINX ?= $(shell PATH=$$PATH:/usr/sbin command -v nginx)
NGINX_SRC ?= $(patsubst %/conf_flags,%,$(shell dpkg -L nginx-dev 2>/dev/null \
                 | grep '/conf_flags$$'))

# For util/nginx, which builds, and for the tests.
export AGENTSTREAM_BUILD = $(abspath $(BUILD))
export AGENTSTREAM_MODULE = $(AGENTSTREAM_BUILD)/$(MODULE).so
export AGENTSTREAM_NGINX = $(NGINX)
export AGENTSTREAM_OPENCODE = $(AGENTSTREAM_BUILD)/opencode/opencode
export TEST_NGINX_BINARY = $(AGENTSTREAM_NGINX)
export AGENTSTREAM_STOCK = $(NGINX)
export CC NGINX_SRC JOBS V

# nginx takes a variable of this name for the sockets of an earlier nginx, and
# make passes on what is set on its command line.
unexport NGINX


.PHONY: help
help: ## list the targets
	@echo 'Usage: make [target] [VARIABLE=value]'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) \
	    | awk -F'|' '{ printf "%-18s%s\n", $$1, $$2 }'
	@echo
	@echo 'Variables: NGINX_SRC (source tree), NGINX (binary), BUILD,'
	@echo '  NGINX_CONFIGURE (for a tree other than Debian'"'"'s), DESTDIR,'
	@echo '  PORT, OPENCODE_URL, OPENCODE_PASSWORD, OWNERS, MACHINES (make run),'
	@echo '  TESTS, JOBS, FUZZ_SECONDS (make test, fuzz), V=1 (say it all),'
	@echo '  FAULT_SEED, FAULT_TURNS, FAULT_ROOM, FAULT_WORKERS, FAULT_TESTS'
	@echo '  MACHINES_SEED, MACHINES_TURNS (make test-machines)'


# Build

.PHONY: build
build: ## build the module for nginx (the default)
	@util/nginx module

.PHONY: asan later bare alloc memcheck
asan later bare alloc memcheck: build
	@util/nginx $@


# Install: util/install says which variables choose the places.

export DESTDIR CONSOLE

.PHONY: install uninstall
install: build $(if $(filter off,$(CONSOLE)),,console) ## install the module, the console and an example
uninstall: ## remove what "make install" has installed
install uninstall:
	@util/install $@


.PHONY: dist
dist: ## make a source tarball, the same bytes each time
	@util/dist

.PHONY: deb
deb: deps-deb console ## make the Debian packages
	@util/deb


# Run

.PHONY: run
run: deps-run build console ## start a demo: model, OpenCode and nginx
	@exec util/run

.PHONY: console
console: ## build the console page, the client and the examples
	@util/deps console
	@node console/build.mjs $(BUILD)
	@node examples/build.mjs $(BUILD)


# Test: util/test runs the tests; util/programs.mk builds those that are
# programs.

include util/programs.mk

.PHONY: test
test: FUZZ_SECONDS := 5
test: export FUZZ_SEED := 1
test: deps-test build console check fuzz units budget ## run all the tests
	@util/test plain $(TESTS) $(UNITS)

test: $(if $(filter t/alloc_%,$(TESTS)),alloc)
test: $(if $(filter t/config_bare.t,$(TESTS)),bare)
test: $(if $(filter t/chat_oracles.t t/chat_judges.t,$(TESTS)),deps-oracles)

.PHONY: quick
quick: build check units ## run the checkers, the unit tests and the core of the others
	@util/test quick $(UNITS)

.PHONY: test-asan test-later test-alloc test-memcheck test-faults
.PHONY: test-machines test-chats
test-asan: deps-test build console asan alloc budget ## run the tests with the module sanitized
test-later: deps-test later ## run the core tests with a store that answers later
test-alloc: deps-test alloc ## run turns with each allocation failing once
test-memcheck: deps-test memcheck ## run the core tests under valgrind
test-faults: deps-test build ## run 500 turns with faults that FAULT_SEED chooses
test-machines: deps-test build ## run the tests of several machines, and break what they rely on
test-chats: deps-test build ## 500 chats at once, and platforms that fail for long
test-asan test-later test-alloc test-memcheck test-faults test-machines test-chats:
	@util/test $(@:test-%=%) $(if $(filter %-asan,$@),$(TESTS))

.PHONY: test-deb
test-deb: deps-deb console ## install and upgrade the packages in fresh Debian systems
	@util/test-deb $(RELEASES)

.PHONY: test-matrix
test-matrix: deps-test build ## test with several versions of nginx and OpenCode
	@util/test-matrix

.PHONY: test-load
test-load: deps-bench build ## hold 2,000 open turns, with one and two workers
	@bench/held.mjs

.PHONY: test-soak
test-soak: deps-bench build ## a day's packets on one stream, in two minutes
	@bench/soak.mjs

.PHONY: check
check: ## check style, layers and that directives are documented
	@rc=0; for check in $(sort $(wildcard util/check-*)); do \
	    ./$$check || rc=1; done; exit $$rc

# After nginx is configured, so that make knows all files of the programs.
.PHONY: units fuzzers budget
units: TARGETS = $(UNITS)
fuzzers: TARGETS = $(FUZZERS)
budget: TARGETS = $(BUILD)/bench/budget
units fuzzers budget: build
	@$(MAKE) --no-print-directory -j$(JOBS) PARALLEL=1 $(TARGETS)

.PHONY: unit
unit: units ## build and run the unit tests of the pure parts and the store
	@prove -j$(JOBS) $(UNITS)

.PHONY: fuzz
fuzz: $(if $(filter-out 0,$(FUZZ_SECONDS)),fuzzers) ## fuzz the pure parts and what Redis sends, FUZZ_SECONDS each (0: skip)
	@util/fuzz $(FUZZ_SECONDS) $(FUZZERS)


# Bench

.PHONY: bench
bench: deps-bench build ## measure against other bridges, write docs/performance.md
	@bench/run.mjs --docs
	@bench/growth.mjs --docs

.PHONY: bench-quick
bench-quick: deps-bench build ## the same in a minute, and print it
	@bench/run.mjs --quick


# The rest

.PHONY: deps deps-run deps-test deps-oracles deps-bench deps-deb
deps: ## install what the build needs
deps-run: ## install what "make run" needs
deps-test: ## install what the tests need
deps-bench: ## install what the benchmark needs
deps-deb: ## install what makes and tests the packages
deps deps-run deps-test deps-oracles deps-bench deps-deb:
	@util/deps $(patsubst deps,build,$(@:deps-%=%))

.PHONY: clean
clean: ## remove what was built (OpenCode stays: rm -rf build)
	@for file in $(BUILD)/* $(BUILD)/.[a-z]*; do \
	    case $${file##*/} in opencode|nginx-src|npm*|prometheus|chroot) ;; \
	    *) rm -rf "$$file" ;; esac; done
