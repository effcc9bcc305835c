# make            build ./bperf for this machine
# make check      what can be told without running the product
# make test       every test: on this kernel, as root, then in guests
# make help       all targets

SHELL := /bin/bash -o pipefail
export CGO_ENABLED := 0

CACHE   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bperf
ARCHES  := amd64 arm64
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD   := go build -trimpath -ldflags '-s -w -X github.com/bperf/bperf/internal/cli.version=$(VERSION)'

STATICCHECK_VERSION := v0.8.2
STATICCHECK         := $(CACHE)/bin/staticcheck-$(STATICCHECK_VERSION)

# The packages whose tests ask the kernel. Those of the command line take the longest and ask it the least.
KERNEL_PACKAGES := ./internal/perfevent ./internal/target ./internal/count/... ./internal/bpfprog ./internal/record ./internal/sample ./internal/script ./internal/annotate \
                   ./internal/top ./internal/kernel ./internal/userstack ./test/e2e ./test/upstream/...
CLI_PACKAGES    := ./internal/cli

# What depends on the kernel's version and on the architecture at once: BPF trampolines and what is counted at them, walking the user's
# stack, code that the kernel compiled, the layout of attributes and records.
ARCH_PACKAGES := ./internal/perfevent ./internal/kernel ./internal/bpfprog ./internal/count/program ./internal/userstack ./internal/annotate ./test/e2e

# The kernels that tests run on besides this machine's, 6.18 or whatever it is, and what runs there; what takes the longest comes first. For the command line
# the oldest and the newest do. 6.12 is there on arm64, and on amd64 the older and the newer one: of this pair there is only what depends on both.
GUEST := -perf -timeout 35m
GUESTS := $(GUEST) -kernel arm64/testing $(KERNEL_PACKAGES) \
        + $(GUEST) -kernel amd64/bookworm $(KERNEL_PACKAGES) \
        + $(GUEST) -kernel arm64/trixie $(KERNEL_PACKAGES) \
        + $(GUEST) -kernel arm64/testing $(CLI_PACKAGES) \
        + $(GUEST) -kernel amd64/bookworm $(CLI_PACKAGES) \
        + $(GUEST) -kernel amd64/trixie $(ARCH_PACKAGES)

GENERATED := $(shell find internal test -name '*_bpfel*')

.NOTPARALLEL: # the go command uses all CPUs, and outputs would mix

.PHONY: bperf
bperf: ## build ./bperf for this machine (the default)
	$(BUILD) -o $@ ./cmd/bperf

.PHONY: build
build: $(ARCHES:%=bperf-linux-%) ## build a static binary for each architecture

.PHONY: $(ARCHES:%=bperf-linux-%)
$(ARCHES:%=bperf-linux-%): bperf-linux-%:
	GOOS=linux GOARCH=$* $(BUILD) -o $@ ./cmd/bperf

.PHONY: generate
generate: ## make the generated files again: the BPF objects, with clang 14 and the headers of libbpf
	@BPF2GO_CC=clang-14 BPF2GO_STRIP=llvm-strip-14 BPF2GO_CFLAGS="-idirafter /usr/include/$$(gcc -print-multiarch)" \
	  go generate ./...

.PHONY: check
check: $(STATICCHECK) ## gofmt, go vet and staticcheck for each architecture, the import rules
	@unformatted=$$(gofmt -l .); \
	  [ -z "$$unformatted" ] || { printf 'not gofmted:\n%s\n' "$$unformatted"; exit 1; }
	GOARCH=amd64 go vet ./...
	GOARCH=arm64 go vet ./...
	GOARCH=amd64 $(STATICCHECK) ./...
	GOARCH=arm64 $(STATICCHECK) ./...
	go test -count=1 ./test/imports

.PHONY: check-generated
check-generated: ## the generated files are what `make generate` makes; it needs what that needs
	@old=$$(mktemp -d) && trap "rm -r $$old" EXIT && cp --parents $(GENERATED) $$old && $(MAKE) --no-print-directory generate && \
	  for f in $(GENERATED); do cmp $$old/$$f $$f || exit 1; done

# Built for this machine first: `GOARCH=arm64 go run` would build staticcheck itself for arm64.
$(STATICCHECK):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(@D)/staticcheck $@

TESTS ?= test-host test-guests

.PHONY: test
test: ## all tests: on this kernel, then in guests; the last line is "N passed, N failed"
	@go run ./test/tally -timeout 75m $(MAKE) --no-print-directory --keep-going $(TESTS)

# make check vets them. The packages that ask the kernel are tested one after another: Linux 6.18 does not bear it when several processes load and
# free BPF programs by the hundred (docs/kernel-notes.md).
.PHONY: test-host
test-host: test-host-kernel test-host-others ## all tests on this kernel; what needs root is skipped without it, and fails where CI is set

.PHONY: test-host-kernel
test-host-kernel: bperf packaged-perf
	BPERF=$(CURDIR)/bperf go test -vet=off -count=1 -p 1 -v $(KERNEL_PACKAGES) $(CLI_PACKAGES)

.PHONY: test-host-others
test-host-others: packaged-perf
	go test -vet=off -count=1 -v $$(go list ./... | grep -vxF "$$(go list $(KERNEL_PACKAGES) $(CLI_PACKAGES))")

.PHONY: packaged-perf
packaged-perf: ## fetch the perf of Debian testing, beside which tests compare; those fail without it where CI is set
	-go run ./test/upstream packaged

.PHONY: test-guests
test-guests: ## the tests that ask the kernel, on other kernels under QEMU, with upstream perf beside them
	go run ./test/guest $(GUESTS)

# What decodes files, or what the kernel gives. The targets of a decoder share its time.
DECODERS ?= ./internal/perfdata:FuzzFile,FuzzPipe ./internal/perfdata:FuzzRecord ./internal/perfdata:FuzzFeature ./internal/tracedata \
            ./internal/symbol ./internal/symbol/object ./internal/symbol/dwarf ./internal/symbol/pclntab ./internal/symbol/unwind ./internal/symbol/jit \
            ./internal/symbol/kernel ./internal/bpfprog:FuzzTypeName,FuzzAttributes ./internal/bpfprog/linear ./internal/bpfprog/disasm ./internal/record ./internal/perfevent ./internal/report
FUZZTIME ?= 60s

.PHONY: fuzz
fuzz: ## fuzz every decoder for a while, as many at once as there are CPUs: DECODERS=./internal/perfdata:FuzzFile FUZZTIME=60s
	go run ./test/fuzz -time $(FUZZTIME) $(DECODERS)

.PHONY: bench
bench: bperf ## bperf beside perf and bpftool: time and memory; what sharing counters costs, and counting inside BPF programs
	go run ./test/bench -bperf ./bperf
	go run ./test/bench -record -n 5 -bperf ./bperf
	go run ./test/bench -replay -n 5 -bperf ./bperf
	go run ./test/bench -programs 500 -n 20 -bperf ./bperf -bpftool "$$(go run ./test/upstream bpftool)"
	go run ./test/bench -programs 500 -n 20 -bperf ./bperf # beside Debian's bpftool, which does not look for who holds programs
	go run ./test/bench/sharing
	go run ./test/guest -perf -smp 1 ./test/bench/instructions
	go run ./test/bench -profile -n 3 -bperf ./bperf
	go run ./test/bench -lost 60s
	go run -ldflags=-s=0 ./test/bench -truth 10s # perf needs the symbols, which go run leaves out otherwise

.PHONY: man
man: ## write the man pages to man/
	go run ./cmd/bperf man man

.PHONY: clean
clean: ## remove what was built here; kernels and tools stay in the cache
	rm -rf bperf bperf-linux-* man

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 17
