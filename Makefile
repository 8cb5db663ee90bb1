# agentstream: OpenCode agents as server-sent events, an nginx module.
# "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.SUFFIXES:

# What users ask for is done in order; PARALLEL is set where we build many files.
ifndef PARALLEL
.NOTPARALLEL:
endif

MODULE := ngx_http_agentstream_module

BUILD ?= build
JOBS ?= 2
FUZZ_SECONDS ?= 60
TESTS ?= $(sort $(wildcard t/*.t))

# What "sudo make" has left cannot be written to without it.
FOREIGN := $(shell [ "$$(id -u)" = 0 ] || find $(BUILD) -maxdepth 3 \
	! -type l ! -user "$$(id -u)" ! -writable -print -quit 2>/dev/null)

ifneq ($(FOREIGN),)
$(error $(FOREIGN) is not yours, perhaps of an earlier "sudo make": use \
	sudo again, or "sudo chown -R $$USER $(BUILD)")
endif

# Late binding: both may be installed by "deps" in the same run.
NGINX ?= $(shell PATH=$$PATH:/usr/sbin command -v nginx)
NGINX_SRC ?= $(patsubst %/conf_flags,%,$(shell dpkg -L nginx-dev 2>/dev/null \
                 | grep '/conf_flags$$'))

# For a tree that does not say how its nginx was configured (Debian's does).
NGINX_CONFIGURE ?= --with-compat --with-debug --with-threads \
	--with-http_ssl_module --with-http_v2_module \
	--with-http_stub_status_module --with-http_realip_module \
	--with-http_auth_request_module

# A module's calls of its own functions are direct, not by a table that others
# could change.
CC_OPT ?= -g -O2 -fstack-protector-strong -Wformat -Werror -fPIC \
	-fno-semantic-interposition -D_FORTIFY_SOURCE=2
LD_OPT ?= -Wl,-z,relro -Wl,-z,now -Wl,-Bsymbolic -fPIC

SANITIZE := -fsanitize=address,undefined -fno-omit-frame-pointer \
	-fno-sanitize-recover=undefined

HEADERS := $(wildcard src/*.h src/*/*.h)

# The parts that know nothing of nginx's I/O: tested as ordinary programs.
PURE := $(sort $(wildcard src/pure/*.c))

# For the tests, and for util/nginx, which builds.
export AGENTSTREAM_BUILD = $(abspath $(BUILD))
export AGENTSTREAM_MODULE = $(AGENTSTREAM_BUILD)/$(MODULE).so
export AGENTSTREAM_NGINX = $(NGINX)
export AGENTSTREAM_OPENCODE = $(AGENTSTREAM_BUILD)/opencode/opencode
export TEST_NGINX_BINARY = $(AGENTSTREAM_NGINX)
export AGENTSTREAM_STOCK = $(NGINX)
export CC CC_OPT LD_OPT NGINX_SRC NGINX_CONFIGURE JOBS V


.PHONY: help
help: ## list the targets
	@echo 'Usage: make [target] [VARIABLE=value]'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) \
	    | awk -F'|' '{ printf "%-14s%s\n", $$1, $$2 }'
	@echo
	@echo 'Variables: NGINX_SRC (source tree), NGINX (binary), BUILD,'
	@echo '  NGINX_CONFIGURE (for a tree other than Debian'"'"'s), DESTDIR,'
	@echo '  PORT, OPENCODE_URL, OPENCODE_PASSWORD (make run),'
	@echo '  TESTS, JOBS, FUZZ_SECONDS (make test, fuzz), V=1 (say it all),'
	@echo '  FAULT_SEED, FAULT_TURNS, FAULT_ROOM, FAULT_WORKERS, FAULT_TESTS'


# Build

.PHONY: build
build: ## build the module for nginx (the default)
	@util/nginx module

.PHONY: asan alloc memcheck
asan alloc memcheck: build
	@util/nginx $@


# Install

MODULES_PATH ?= $(or $(shell $(NGINX) -V 2>&1 \
                    | sed -n 's/.*--modules-path=\([^ ]*\).*/\1/p'),\
                  /usr/lib/nginx/modules)
MODULES_AVAILABLE ?= /usr/share/nginx/modules-available
EXAMPLES ?= /usr/share/doc/libnginx-mod-http-agentstream/examples

.PHONY: install
install: build ## install the module and an example configuration
	install -d $(DESTDIR)$(MODULES_PATH) $(DESTDIR)$(MODULES_AVAILABLE) \
	    $(DESTDIR)$(EXAMPLES)
	install -m 644 $(BUILD)/$(MODULE).so $(DESTDIR)$(MODULES_PATH)/
	echo 'load_module modules/$(MODULE).so;' \
	    >$(DESTDIR)$(MODULES_AVAILABLE)/mod-http-agentstream.conf
	install -m 644 conf/agentstream.conf $(DESTDIR)$(EXAMPLES)/
	@echo
	@echo 'To load it: ln -s' \
	    '$(MODULES_AVAILABLE)/mod-http-agentstream.conf' \
	    '/etc/nginx/modules-enabled/50-mod-http-agentstream.conf'


# Run

.PHONY: run
run: deps-run build console ## start a demo: model, OpenCode and nginx
	@exec util/run

.PHONY: console
console: ## build the console page and the client
	@util/deps console
	@node console/build.mjs $(BUILD)


# Test

.PHONY: test
test: FUZZ_SECONDS := 5
test: deps-test build console check fuzz units ## run all the tests
	@$(MAKE) --no-print-directory $(BUILD)/bench/budget \
	    $(if $(filter t/alloc_%,$(TESTS)),alloc)
	@prove -j$(JOBS) -I t/lib $(TESTS) $(UNITS)

# What most changes break, in little more than a minute; longest first.
QUICK ?= $(wildcard t/resume_reload.t t/busy_queue.t \
	t/busy_disconnect.t t/resume_events.t t/turn_stream.t t/turn_replay.t \
	t/turn_faults.t t/turn_restart.t t/busy_reject.t \
	t/busy_idempotent.t t/resume_cut.t t/resume_readers.t)

.PHONY: quick
quick: build check units ## run the checkers, the unit tests and the core of the others
	@prove -j4 -I t/lib $(QUICK) $(UNITS)

.PHONY: test-asan
test-asan: export AGENTSTREAM_MODULE = $(abspath $(BUILD))/asan/$(MODULE).so
test-asan: export AGENTSTREAM_NGINX = $(abspath $(BUILD))/asan/nginx-asan
test-asan: export AGENTSTREAM_ASAN = $(abspath $(BUILD))/asan/log
test-asan: deps-test build console asan alloc $(BUILD)/bench/budget ## run the tests with the module sanitized
	@rm -rf $(AGENTSTREAM_ASAN) && mkdir -p -m 1777 $(AGENTSTREAM_ASAN)
	@rc=0; prove -j$(JOBS) -I t/lib $(TESTS) || rc=$$?; \
	for log in $(AGENTSTREAM_ASAN)/*; do \
	    if [ -s "$$log" ]; then cat "$$log"; rc=1; fi; \
	done; \
	if [ $$rc = 0 ]; then echo 'no sanitizer reports'; fi; \
	exit $$rc

# Not by prove: what it shows of a long test comes late.
.PHONY: test-alloc
test-alloc: export AGENTSTREAM_SCENARIOS ?= all
test-alloc: export AGENTSTREAM_PARTS ?= 8
test-alloc: deps-test alloc ## run turns with each allocation failing once
	@perl -I t/lib t/alloc_failures.t

# The core paths; those that measure time are not for valgrind.
MEMCHECK ?= t/turn_stream.t t/turn_faults.t t/hub_stream.t \
	t/resume_events.t t/busy_idempotent.t t/conversation_answers.t \
	t/conversation_sessions.t t/retain_answers.t

.PHONY: test-memcheck
test-memcheck: export AGENTSTREAM_MODULE =
test-memcheck: export AGENTSTREAM_NGINX = $(abspath \
	$(BUILD))/memcheck/nginx-memcheck
test-memcheck: export AGENTSTREAM_ASAN = $(abspath $(BUILD))/memcheck/log
test-memcheck: export AGENTSTREAM_SCALE ?= 10
test-memcheck: deps-test memcheck ## run the core tests under valgrind
	@prove -j$(JOBS) -I t/lib $(MEMCHECK)

# The two sides share FAULT_TURNS.  A failing turn says how to repeat it alone.
FAULT_TURNS ?= 500
FAULT_SEED ?= 1
FAULT_TESTS ?= t/faults_scripted.t t/faults_real.t

.PHONY: test-faults
test-faults: export FAULT_TURNS := $(FAULT_TURNS)
test-faults: export FAULT_SEED := $(FAULT_SEED)
test-faults: deps-test build ## run 500 turns with faults that FAULT_SEED chooses
	@prove -v -I t/lib $(FAULT_TESTS)

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


# Unit tests, fuzzers and the budget: programs of the pure parts and a few files
# of nginx's core, whose undefined behaviour is not ours to mend.
# program(directory, compiler, options, options for the core) makes the rules.

INCLUDES := -I src/pure -I t/unit $(foreach dir,objs src/core src/event \
	src/event/modules src/event/quic src/os/unix src/http \
	src/http/modules src/http/v2,-isystem $(BUILD)/nginx/$(dir))

WARN := -Wall -Wextra -Wno-unused-parameter -Werror
UNITS := $(patsubst t/unit/%.c,$(BUILD)/unit/%,$(filter-out %/stubs.c,\
	$(sort $(wildcard t/unit/*.c))))
FUZZERS := $(patsubst t/fuzz/%.c,$(BUILD)/fuzz/%,$(sort \
	$(wildcard t/fuzz/*.c)))
FUZZ_CC ?= clang

define program
$(BUILD)/$(1)/libngxcore.a: $(BUILD)/nginx/.configured t/unit/stubs.c
	@util/nginx core $$(@D) '$(2)' '$(4) -w'

$(BUILD)/$(1)/pure/%.o: src/pure/%.c $(HEADERS) $(BUILD)/nginx/.configured
	@mkdir -p $$(@D)
	@$(2) $(3) $(WARN) $(INCLUDES) -c -o $$@ $$<

$(BUILD)/$(1)/libpure.a: $(patsubst src/%.c,$(BUILD)/$(1)/%.o,$(PURE))
	@rm -f $$@ && ar crs $$@ $$^
endef

$(eval $(call program,unit,$(CC),-g -O1 $(SANITIZE),-g -O1 -fsanitize=address))
$(eval $(call program,fuzz,$(FUZZ_CC),-g -O1 -fsanitize=fuzzer-no-link \
	$(SANITIZE),-g -O1 -fsanitize=address))
$(eval $(call program,bench,$(CC),-g -O2,-g -O2))

$(BUILD)/unit/%: t/unit/%.c $(wildcard t/unit/*.h) $(HEADERS) \
    $(BUILD)/unit/libpure.a $(BUILD)/unit/libngxcore.a
	@$(CC) -g -O1 $(SANITIZE) $(WARN) $(INCLUDES) -o $@ $< \
	    $(filter %.a,$^) -lcjson

$(BUILD)/fuzz/%: t/fuzz/%.c $(wildcard t/fuzz/*.h t/unit/*.h) $(HEADERS) \
    $(BUILD)/fuzz/libpure.a $(BUILD)/fuzz/libngxcore.a
	@$(FUZZ_CC) -g -O1 -Wall -fsanitize=fuzzer $(SANITIZE) $(INCLUDES) \
	    -o $@ $< $(filter %.a,$^) -lcjson

# Instructions are counted on what users get: no sanitizers.
$(BUILD)/bench/budget: bench/budget.c $(HEADERS) $(BUILD)/bench/libpure.a \
    $(BUILD)/bench/libngxcore.a
	@$(CC) -g -O2 $(WARN) $(INCLUDES) -o $@ $< $(filter %.a,$^)

.PHONY: units
units: build
	@$(MAKE) --no-print-directory -j$(JOBS) PARALLEL=1 $(UNITS)

.PHONY: unit
unit: units ## build and run the unit tests of the pure parts
	@prove -j$(JOBS) $(UNITS)

.PHONY: fuzz
fuzz: build ## fuzz the pure parts, FUZZ_SECONDS each
	@$(MAKE) --no-print-directory -j$(JOBS) PARALLEL=1 $(FUZZERS)
	@util/fuzz $(FUZZ_SECONDS) $(FUZZERS)


# Bench

.PHONY: bench
bench: deps-bench build ## measure against other bridges, write docs/performance.md
	@bench/run.mjs --docs

.PHONY: bench-quick
bench-quick: deps-bench build ## the same in a minute, and print it
	@bench/run.mjs --quick


# The rest

.PHONY: deps
deps: ## install what the build needs
	@util/deps build

.PHONY: deps-run
deps-run: ## install what "make run" needs
	@util/deps run

.PHONY: deps-test
deps-test: ## install what the tests need
	@util/deps test

.PHONY: deps-bench
deps-bench: ## install what the benchmark needs
	@util/deps bench

.PHONY: clean
clean: ## remove what was built (OpenCode stays: rm -rf build)
	@for file in $(BUILD)/* $(BUILD)/.[a-z]*; do \
	    case $${file##*/} in opencode|nginx-src|npm*) ;; \
	    *) rm -rf "$$file" ;; esac; done
