# make            build ./bperf for this machine
# make check      what can be told without running the product
# make test       every test: on this kernel, as root, then in guests
# make help       all targets

SHELL := /bin/bash -o pipefail
export CGO_ENABLED := 0

CACHE   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bperf
ARCHES  := amd64 arm64
# Source that git archive wrote has no .git, and the same facts in source.txt.
VERSION := $(or $(shell [ -e .git ] && git describe --tags --always --dirty 2>/dev/null || sed -n '/^[^$$]/{p;q}' internal/cli/source.txt),unknown)
SOURCE_DATE_EPOCH ?= $(shell [ -e .git ] && git log -1 --format=%ct 2>/dev/null || sed -n '3{/^[0-9]/p}' internal/cli/source.txt)
BUILD   := go build -trimpath -ldflags '-s -w -X github.com/bperf/bperf/internal/cli.version=$(VERSION)'

STATICCHECK_VERSION := v0.8.2
STATICCHECK         := $(CACHE)/bin/staticcheck-$(STATICCHECK_VERSION)

GENERATED := $(shell find internal test -name '*_bpfel*')

.NOTPARALLEL: # the go command uses all CPUs, and outputs would mix

.PHONY: bperf
bperf: ## build ./bperf for this machine (the default)
	$(BUILD) -o $@ ./cmd/bperf

PREFIX ?= /usr/local

# The files and directories are those of the packages: packaging/dist. Units are found in /usr/local, too.
.PHONY: install
install: bperf ## install bperf, man pages, completions and the unit of systemd: PREFIX=/usr/local, DESTDIR= to install below another root
	install -D bperf $(DESTDIR)$(PREFIX)/bin/bperf
	umask 022 && ./bperf man $(DESTDIR)$(PREFIX)/share/man
	./bperf completion bash | install -Dm644 /dev/stdin $(DESTDIR)$(PREFIX)/share/bash-completion/completions/bperf
	./bperf completion fish | install -Dm644 /dev/stdin $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/bperf.fish
	./bperf completion zsh | install -Dm644 /dev/stdin $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_bperf
	sed 's|/usr/bin/bperf|$(PREFIX)/bin/bperf|' packaging/bperf.service | \
	  install -Dm644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/bperf.service

.PHONY: build
build: $(ARCHES:%=bperf-linux-%) ## build a static binary for each architecture

.PHONY: $(ARCHES:%=bperf-linux-%)
$(ARCHES:%=bperf-linux-%): bperf-linux-%:
	GOOS=linux GOARCH=$* $(BUILD) -o $@ ./cmd/bperf

.PHONY: generate
generate: ## make the generated files again: BPF objects, with clang 14 and the headers of libbpf, and tables of vendors' events
	@BPF2GO_CC=clang-14 BPF2GO_STRIP=llvm-strip-14 BPF2GO_CFLAGS="-idirafter /usr/include/$$(gcc -print-multiarch)" \
	  go generate $(GENERATEFLAGS) ./...

# The same in every directory, so that a new clone finds the results in Go's cache.
check check-generated: export GOFLAGS := $(GOFLAGS) -trimpath

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
check-generated: ## the BPF objects are what `make generate` makes; it needs what that needs
	@old=$$(mktemp -d) && trap "rm -r $$old" EXIT && cp --parents $(GENERATED) $$old && \
	  $(MAKE) --no-print-directory generate GENERATEFLAGS='-skip vendorevents' && \
	  for f in $(GENERATED); do cmp $$old/$$f $$f || exit 1; done

# Built for this machine first: `GOARCH=arm64 go run` would build staticcheck itself for arm64.
$(STATICCHECK):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(@D)/staticcheck $@

# What runs where is in test/plan.go.
.PHONY: test
test: ## all tests: on this kernel, then in guests; the last line is "N passed, N failed"
	go run ./test

.PHONY: test-host
test-host: ## all tests on this kernel; what needs root is skipped without it, and fails where CI is set
	go run ./test host

.PHONY: test-guests
test-guests: ## the tests that ask the kernel, on other kernels under QEMU, with upstream perf beside them
	go run ./test guests

.PHONY: race
race: ## tests with the race detector, which needs gcc
	go run ./test race

# A module of its own, so that bperf does not depend on what the servers are made of.
.PHONY: test-fleet
test-fleet: ## `bperf serve` beside the servers of fleets, and the code of their projects: as root
	go run ./test/upstream prometheus-3
	go run ./test/upstream collector
	cd test/fleet && go vet ./... && go test -timeout 1h ./...

.PHONY: test-long
test-long: ## all tests in their long versions, and a minute of fuzzing for each decoder: hours
	BPERF_LONG=1 go run ./test -timeout 6h -fuzztime 60s host race guests fuzz

FUZZTIME ?= 60s

.PHONY: fuzz
fuzz: ## fuzz every decoder for a while, as many at once as there are CPUs: FUZZTIME=60s
	go run ./test -fuzztime $(FUZZTIME) fuzz

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
	go run ./test/bench -unwind 20s -n 3 -bperf ./bperf
	go run ./test/bench -top 20s -n 5 -bperf ./bperf
	go run ./test/bench -lost 60s
	go run ./test/bench -serve 300s -bperf ./bperf
	go run -ldflags=-s=0 ./test/bench -truth 10s # perf needs the symbols, which go run leaves out otherwise

# A module of its own, so that bperf does not depend on what writes packages. SOURCE_DATE_EPOCH is the time of the commit.
.PHONY: dist
dist: ## build a release into dist/: tarballs, .deb, .rpm, an OCI image, SBOMs, checksums; the same bytes for the same commit
	cd packaging/dist && go run . -root ../.. -version $(VERSION) -epoch $(SOURCE_DATE_EPOCH) -o ../../dist

.PHONY: test-dist
test-dist: ## install, use and remove the packages in small Debian systems, and build them twice: as root, with mmdebstrap, rpm and lintian
	cd packaging/dist && go vet ./... && go test -count=1 -v -timeout 2h ./...

.PHONY: man
man: ## write the man pages to man/
	go run ./cmd/bperf man man

.PHONY: clean
clean: ## remove what was built here; kernels and tools stay in the cache
	rm -rf bperf bperf-linux-* man dist

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 17
