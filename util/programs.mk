# Rules for unit tests, fuzzers and the instruction budget: ordinary programs
# that are linked from parts of the module and a few files of nginx's core.  We
# do not correct undefined behaviour in nginx's core.

INCLUDES := -I src -I src/pure -I src/store -I t/unit $(foreach dir,objs \
	src/core src/event src/event/modules src/event/quic src/os/unix \
	src/http src/http/modules src/http/v2,-isystem $(BUILD)/nginx/$(dir))

WARN := -Wall -Wextra -Wno-unused-parameter -Werror
SANITIZE := -fsanitize=address,undefined -fno-omit-frame-pointer \
	-fno-sanitize-recover=undefined
FUZZ_CC ?= clang

HEADERS := $(wildcard src/*.h src/*/*.h)
PURE := $(sort $(wildcard src/pure/*.c))
STORE := $(sort $(wildcard src/store/*.c))
UNITS := $(patsubst t/unit/%.c,$(BUILD)/unit/%,$(filter-out %/stubs.c,\
	$(sort $(wildcard t/unit/*.c))))
FUZZERS := $(patsubst t/fuzz/%.c,$(BUILD)/fuzz/%,$(sort \
	$(wildcard t/fuzz/*.c)))

# libraries(directory, compiler, options, options for the core, parts): what the
# programs of a directory are linked with.

define libraries
$(BUILD)/$(1)/libngxcore.a: $(BUILD)/nginx/.configured t/unit/stubs.c util/nginx
	@util/nginx core $$(@D) '$(2)' '$(4) -w'

$(BUILD)/$(1)/%.o: src/%.c $(HEADERS) $(BUILD)/nginx/.configured
	@mkdir -p $$(@D)
	@$(2) $(3) $(WARN) $(INCLUDES) -c -o $$@ $$<

$(BUILD)/$(1)/libparts.a: $(patsubst src/%.c,$(BUILD)/$(1)/%.o,$(5))
	@rm -f $$@ && ar crs $$@ $$^
endef

$(eval $(call libraries,unit,$(CC),-g -O1 $(SANITIZE),\
	-g -O1 -fsanitize=address,$(PURE) $(STORE)))
$(eval $(call libraries,fuzz,$(FUZZ_CC),-g -O1 -fsanitize=fuzzer-no-link \
	$(SANITIZE),-g -O1 -fsanitize=address,$(PURE) $(STORE)))
$(eval $(call libraries,bench,$(CC),-g -O2,-g -O2,$(PURE)))

$(BUILD)/unit/%: t/unit/%.c $(wildcard t/unit/*.h) $(HEADERS) \
    $(BUILD)/unit/libparts.a $(BUILD)/unit/libngxcore.a
	@$(CC) -g -O1 $(SANITIZE) $(WARN) $(INCLUDES) -o $@ $< \
	    $(filter %.a,$^) -lcjson -lmd4c -lcrypto

$(BUILD)/fuzz/%: t/fuzz/%.c $(wildcard t/fuzz/*.h t/unit/*.h) $(HEADERS) \
    $(BUILD)/fuzz/libparts.a $(BUILD)/fuzz/libngxcore.a
	@$(FUZZ_CC) -g -O1 -Wall -fsanitize=fuzzer $(SANITIZE) $(INCLUDES) \
	    -o $@ $< \
	    $(filter %.a,$^) -lcjson -lmd4c -lhiredis -lssl -lcrypto

# Instructions are counted in the code that users run, without sanitizers.
$(BUILD)/bench/budget: bench/budget.c $(wildcard t/unit/*.h) $(HEADERS) \
    $(BUILD)/bench/libparts.a $(BUILD)/bench/libngxcore.a
	@$(CC) -g -O2 $(WARN) $(INCLUDES) -o $@ $< \
	    $(filter %.a,$^) -lcjson -lmd4c -lcrypto
