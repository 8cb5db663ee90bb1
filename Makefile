# agentstream: OpenCode agents as server-sent events, an nginx module.
# "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.DELETE_ON_ERROR:
.NOTPARALLEL:
.SUFFIXES:

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
ASAN_CC_OPT := -g -O1 -Werror -fPIC $(SANITIZE)
ASAN_LD_OPT := -fPIC $(SANITIZE)

comma := ,

SOURCES := $(wildcard $(MODULE).c src/*.c)
HEADERS := $(wildcard src/*.h)

# The parts that know nothing of nginx's I/O: tested as ordinary programs.
PURE := $(sort $(wildcard $(foreach part,json sse opencode acp body translate,\
	src/ngx_http_agentstream_$(part).c \
	src/ngx_http_agentstream_$(part)_*.c)))

export AGENTSTREAM_BUILD = $(abspath $(BUILD))
export AGENTSTREAM_MODULE = $(abspath $(BUILD))/$(MODULE).so
export AGENTSTREAM_NGINX = $(NGINX)
export AGENTSTREAM_OPENCODE = $(abspath $(BUILD))/opencode/opencode
export TEST_NGINX_BINARY = $(AGENTSTREAM_NGINX)


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
build: $(BUILD)/$(MODULE).so ## build the module for nginx (the default)

# configure(directory, cc options, ld options): nginx's tree is not ours to
# write to, so it is configured in a directory of links to it.
define configure
	@[ -e "$(abspath $(NGINX_SRC))/src/core/nginx.h" ] || { \
	    echo 'nginx: no source tree in "$(NGINX_SRC)"' >&2; \
	    echo 'try "make deps", or "make NGINX_SRC=<tree>"' >&2; exit 1; }
	@echo "configuring for nginx" \
	    "$$(sed -n 's/.*NGINX_VERSION  *"\(.*\)"/\1/p' \
	        '$(abspath $(NGINX_SRC))/src/core/nginx.h')"
	@rm -rf $(1) && mkdir -p $(1)
	@ln -s $(abspath $(NGINX_SRC))/* $(1)/ && rm -f $(1)/Makefile $(1)/objs
	@cd $(1) && \
	if [ -e conf_flags ]; then . ./conf_flags; \
	else NGX_CONF_FLAGS=($(NGINX_CONFIGURE)); fi && \
	configure=./configure && \
	if [ ! -e $$configure ]; then configure=auto/configure; fi && \
	$$configure "$${NGX_CONF_FLAGS[@]}" --with-cc="$(CC)" \
	    --with-cc-opt="$(2)" --with-ld-opt="$(3)" \
	    --add-dynamic-module="$(CURDIR)" >configure.log 2>&1 \
	    || { tail -n 20 configure.log >&2; exit 1; }
	@cp $(1).settings $(1)/.configured
endef

# modules(directory): a symbol of ours that nobody defines would only show
# when nginx loads the module.
define modules
	@$(MAKE) $(if $(V),,-s) --no-print-directory -C $(1) -j$(JOBS) \
	    -f objs/Makefile modules
	@if nm -D --undefined-only $(1)/objs/$(MODULE).so | grep agentstream; \
	    then echo 'undefined symbols in the module' >&2; exit 1; fi
	@cp $(1)/objs/$(MODULE).so $@.new && mv $@.new $@
	@echo "built $@"
endef

# settings(options): rewritten only when something in it changes.
define settings
	@mkdir -p $(@D)
	@{ echo '$(abspath $(NGINX_SRC)) $(NGINX_CONFIGURE) $(CC)' \
	        '$(1) $(SOURCES) $(HEADERS)'; cksum config; \
	   cat '$(abspath $(NGINX_SRC))/src/core/nginx.h' 2>/dev/null; \
	} >$@.new || true
	@if cmp -s $@.new $@; then rm -f $@.new; else mv $@.new $@; fi
endef

.PHONY: FORCE
FORCE:

$(BUILD)/nginx.settings: FORCE
	$(call settings,$(CC_OPT) $(LD_OPT))

$(BUILD)/nginx/.configured: $(BUILD)/nginx.settings
	$(call configure,$(BUILD)/nginx,$(CC_OPT),$(LD_OPT))

$(BUILD)/$(MODULE).so: $(BUILD)/nginx/.configured $(SOURCES) $(HEADERS)
	$(call modules,$(BUILD)/nginx)

$(BUILD)/asan/nginx.settings: FORCE
	$(call settings,$(ASAN_CC_OPT) $(ASAN_LD_OPT))

$(BUILD)/asan/nginx/.configured: $(BUILD)/asan/nginx.settings
	$(call configure,$(BUILD)/asan/nginx,$(ASAN_CC_OPT),$(ASAN_LD_OPT))

$(BUILD)/asan/$(MODULE).so: $(BUILD)/asan/nginx/.configured \
    $(SOURCES) $(HEADERS)
	$(call modules,$(BUILD)/asan/nginx)


# A whole nginx with the module in it, where every allocation from a pool is
# a malloc() of its own: what reaches beyond one, or uses it after it was
# given back, is seen, and each of them can be made to fail.

WHOLE_CC_OPT := -g -O1 -fno-omit-frame-pointer -DNGX_DEBUG_PALLOC=1
ALLOC_CC_OPT := $(WHOLE_CC_OPT) -fsanitize=address
INJECT := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc \
	posix_memalign socketpair ngx_get_connection ngx_slab_alloc_locked \
	ngx_slab_free_locked ngx_shmtx_unlock \
	ngx_http_agentstream_output_alloc)

# whole(directory, cc options)
define whole
	@[ -e "$(NGINX_CORE)/src/core/ngx_string.c" ] || { \
	    echo 'no source of nginx: try "make deps-test"' >&2; exit 1; }
	@echo "configuring a whole nginx in $(1)"
	@rm -rf $(1) && mkdir -p $(1)
	@ln -s $(NGINX_CORE)/* $(1)/ && rm -f $(1)/Makefile $(1)/objs
	@cd $(1) && configure=./configure && \
	if [ ! -e $$configure ]; then configure=auto/configure; fi && \
	$$configure $(NGINX_CONFIGURE) --with-cc="$(CC)" \
	    --with-cc-opt="$(2)" --add-module="$(CURDIR)" >configure.log 2>&1 \
	    || { tail -n 20 configure.log >&2; exit 1; }
	@cp $(1).settings $(1)/.configured
endef

$(BUILD)/alloc/nginx.settings: FORCE
	$(call settings,$(ALLOC_CC_OPT))

$(BUILD)/alloc/nginx/.configured: $(BUILD)/alloc/nginx.settings
	$(call whole,$(BUILD)/alloc/nginx,$(ALLOC_CC_OPT))

# the undefined behaviour of nginx itself is not ours to mend
$(BUILD)/alloc/nginx/objs/nginx: $(BUILD)/alloc/nginx/.configured \
    t/alloc/inject.c $(SOURCES) $(HEADERS)
	@$(CC) -g -O1 -Wall -Werror -isystem $(@D) $(foreach dir,core event \
	    os/unix,-isystem $(<D)/src/$(dir)) -c -o $(<D)/inject.o \
	    t/alloc/inject.c
	@printf '%s\n' 'objs/addon/%.o: CFLAGS += $(SANITIZE)' >$(<D)/module.mk
	@rm -f $@
	@$(MAKE) $(if $(V),,-s) --no-print-directory -C $(<D) -j$(JOBS) \
	    -f objs/Makefile -f module.mk objs/nginx \
	    LINK='$(CC) $(SANITIZE) -no-pie inject.o $(INJECT)'
	@echo "built $@"

$(BUILD)/memcheck/nginx.settings: FORCE
	$(call settings,$(WHOLE_CC_OPT))

$(BUILD)/memcheck/nginx/.configured: $(BUILD)/memcheck/nginx.settings
	$(call whole,$(BUILD)/memcheck/nginx,$(WHOLE_CC_OPT))

$(BUILD)/memcheck/nginx/objs/nginx: $(BUILD)/memcheck/nginx/.configured \
    $(SOURCES) $(HEADERS)
	@$(MAKE) $(if $(V),,-s) --no-print-directory -C $(<D) -j$(JOBS) \
	    -f objs/Makefile objs/nginx
	@touch $@
	@echo "built $@"

# wrapper(nginx, suppressions of leaks, libraries): with the options of the
# sanitizers
define wrapper
	@{ echo '#!/bin/sh'; \
	   echo "LD_PRELOAD='$(3)'"; \
	   echo 'log=$${AGENTSTREAM_ASAN:-$(abspath $(@D))/log}/report'; \
	   echo 'ASAN_OPTIONS=log_path=$$log:detect_leaks=1'; \
	   echo 'ASAN_OPTIONS=$$ASAN_OPTIONS:fast_unwind_on_malloc=0'; \
	   echo 'UBSAN_OPTIONS=log_path=$$log:print_stacktrace=1'; \
	   echo 'LSAN_OPTIONS=suppressions=$(abspath $(@D))/lsan.supp'; \
	   echo 'LSAN_OPTIONS=$$LSAN_OPTIONS:print_suppressions=0'; \
	   echo 'export LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS'; \
	   echo 'exec $(1) "$$@"'; } >$@
	@echo '$(2)' >$(@D)/lsan.supp
	@chmod +x $@
endef

$(BUILD)/alloc/nginx-alloc: $(BUILD)/alloc/nginx/objs/nginx Makefile
	$(call wrapper,$(abspath $<))


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
test: deps-test build console check fuzz $(BUILD)/unit/.built ## run all the tests
	@$(MAKE) --no-print-directory $(BUILD)/bench/budget \
	    $(if $(filter t/alloc_%,$(TESTS)),alloc)
	@prove -j$(JOBS) -I t/lib $(TESTS) $(UNITS)

# The stock nginx knows nothing of the sanitizers, so their runtime must be
# loaded before it; nginx alone, not Perl or OpenCode.  A worker leaves its
# arrays of connections and events to exit(), all from plain ngx_alloc().
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

.PHONY: asan
asan: $(BUILD)/asan/$(MODULE).so $(BUILD)/asan/nginx-asan

$(BUILD)/asan/nginx-asan: Makefile | $(BUILD)/asan/nginx.settings
	$(call wrapper,$(NGINX),leak:^ngx_alloc$$,$(shell \
	    $(CC) -print-file-name=libasan.so) $(shell \
	    $(CC) -print-file-name=libubsan.so))

# Not by prove: what it shows of a long test comes late.
.PHONY: test-alloc
test-alloc: export AGENTSTREAM_SCENARIOS ?= all
test-alloc: export AGENTSTREAM_PARTS ?= 8
test-alloc: deps-test alloc ## run turns with each allocation failing once
	@perl -I t/lib t/alloc_failures.t

.PHONY: alloc
alloc: $(BUILD)/alloc/nginx-alloc

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

.PHONY: memcheck
memcheck: $(BUILD)/memcheck/nginx-memcheck

$(BUILD)/memcheck/nginx-memcheck: $(BUILD)/memcheck/nginx/objs/nginx Makefile
	@{ echo '#!/bin/sh'; \
	   echo 'exec valgrind -q --tool=memcheck --leak-check=full' \
	        '--show-leak-kinds=definite --errors-for-leak-kinds=definite' \
	        '--num-callers=30 --suppressions=$(CURDIR)/t/memcheck.supp' \
	        '--log-file="$$AGENTSTREAM_ASAN/report.%p"' \
	        '$(abspath $<) "$$@"'; } >$@
	@chmod +x $@

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


# Unit tests and fuzzers: the pure parts with a few files of nginx's core.

NGINX_CORE = $(abspath $(firstword \
	$(dir $(wildcard $(NGINX_SRC)/src/core/ngx_string.c)) \
	$(BUILD)/nginx-src/src/core)/../..)
INCLUDES := -I src -I t/unit $(foreach dir,objs src/core src/event \
	src/event/modules src/event/quic src/os/unix src/http \
	src/http/modules src/http/v2,-isystem $(BUILD)/nginx/$(dir))

UNIT_SOURCES := $(filter-out t/unit/stubs.c,$(sort $(wildcard t/unit/*.c)))
UNITS := $(UNIT_SOURCES:t/unit/%.c=$(BUILD)/unit/%)
UNIT_CFLAGS := -g -O1 -Wall -Wextra -Wno-unused-parameter -Werror $(SANITIZE)

FUZZ_SOURCES := $(sort $(wildcard t/fuzz/*.c))
FUZZERS := $(FUZZ_SOURCES:t/fuzz/%.c=$(BUILD)/fuzz/%)
FUZZ_CC ?= clang

# core(archive, compiler, options)
define core
	@[ -e "$(NGINX_CORE)/src/core/ngx_string.c" ] || { \
	    echo 'no source of nginx for the unit tests:' \
	        'try "make deps-test"' >&2; exit 1; }
	@rm -rf $(1) $(@D)/core && mkdir -p $(@D)/core
	@for file in ngx_array ngx_buf ngx_crc32 ngx_hash ngx_list \
	    ngx_murmurhash ngx_palloc ngx_parse ngx_queue ngx_rbtree \
	    ngx_sha1 ngx_string ngx_times; do \
	    $(2) $(3) $(INCLUDES) -c -o $(@D)/core/$$file.o \
	        "$(NGINX_CORE)/src/core/$$file.c"; \
	done; \
	for file in ngx_alloc ngx_time; do \
	    $(2) $(3) $(INCLUDES) -c -o $(@D)/core/$$file.o \
	        "$(NGINX_CORE)/src/os/unix/$$file.c"; \
	done
	@$(2) $(3) $(INCLUDES) -c -o $(@D)/core/stubs.o t/unit/stubs.c
	@ar crs $(1) $(@D)/core/*.o
endef

.PHONY: unit
unit: $(BUILD)/unit/.built ## build and run the unit tests of the pure parts
	@[ -z "$(UNITS)" ] || prove -j$(JOBS) $(UNITS)

$(BUILD)/unit/.built: $(UNITS)
	@mkdir -p $(@D) && touch $@

$(BUILD)/unit/libngxcore.a: $(BUILD)/nginx/.configured t/unit/stubs.c
	$(call core,$@,$(CC),-g -O1 -fsanitize=address)

$(BUILD)/unit/%: t/unit/%.c $(wildcard t/unit/*.h) $(PURE) $(HEADERS) \
    $(BUILD)/unit/libngxcore.a
	@echo "building $@"
	@$(CC) $(UNIT_CFLAGS) $(INCLUDES) -o $@ $< $(PURE) \
	    $(BUILD)/unit/libngxcore.a -lcjson

.PHONY: fuzz
fuzz: $(FUZZERS) ## fuzz the pure parts, FUZZ_SECONDS each
	@for fuzzer in $(FUZZERS); do \
	    name=$${fuzzer##*/}; \
	    mkdir -p $(BUILD)/fuzz/corpus/$$name; \
	    args=$(BUILD)/fuzz/corpus/$$name; \
	    if [ -d t/fuzz/corpus/$$name ]; then \
	        args="$$args t/fuzz/corpus/$$name"; fi; \
	    if [ -e t/fuzz/$$name.dict ]; then \
	        args="-dict=t/fuzz/$$name.dict $$args"; fi; \
	    if ! $$fuzzer -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	        -print_final_stats=1 -artifact_prefix=$$fuzzer- $$args \
	        >$$fuzzer.log 2>&1; then \
	        tail -n 60 $$fuzzer.log; exit 1; \
	    fi; \
	    echo "fuzz $$name: $$(sed -n \
	        's/^stat::number_of_executed_units: *//p' $$fuzzer.log)" \
	        "inputs in $(FUZZ_SECONDS) s, no finding"; \
	done

$(BUILD)/fuzz/libngxcore.a: $(BUILD)/nginx/.configured t/unit/stubs.c
	$(call core,$@,$(FUZZ_CC),-g -O1 -fsanitize=address -w)

$(BUILD)/fuzz/%: t/fuzz/%.c $(wildcard t/fuzz/*.h t/unit/*.h) $(PURE) \
    $(HEADERS) $(BUILD)/fuzz/libngxcore.a
	@echo "building $@"
	@$(FUZZ_CC) -g -O1 -Wall -fsanitize=fuzzer $(SANITIZE) $(INCLUDES) \
	    -o $@ $< $(PURE) $(BUILD)/fuzz/libngxcore.a -lcjson


# Bench

.PHONY: bench
bench: deps-bench build ## measure against other bridges, write docs/performance.md
	@bench/run.mjs --docs

.PHONY: bench-quick
bench-quick: deps-bench build ## the same in a minute, and print it
	@bench/run.mjs --quick

# Instructions are counted on what users get: no sanitizers.
$(BUILD)/bench/libngxcore.a: $(BUILD)/nginx/.configured t/unit/stubs.c
	$(call core,$@,$(CC),-g -O2)

$(BUILD)/bench/budget: bench/budget.c $(PURE) $(HEADERS) \
    $(BUILD)/bench/libngxcore.a
	@$(CC) -g -O2 -Wall -Wextra -Wno-unused-parameter -Werror $(INCLUDES) \
	    -o $@ $< $(PURE) $(BUILD)/bench/libngxcore.a


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
