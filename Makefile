# weir. `make` lists what there is to do. Needs GNU make, a POSIX shell and Go; `make setup` says what else would help.

.DEFAULT_GOAL := help
SHELL := /bin/sh

GO       ?= go
ARGS     ?=
CONFIG   ?= examples/quota.yaml
FUZZTIME ?= 10s
COUNT    ?= 1

# Version control plays no part in a build: it works in a tarball and in a checkout that somebody else owns.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS 2>/dev/null) -buildvcs=false)

# Programs that are neither Debian's nor Go's are put here by make setup.
export PATH := $(CURDIR)/bin/peers:$(PATH)

GIT := git -c safe.directory='$(CURDIR)'

# The race detector does not watch SQLite, which is C turned into Go with locks of its own, nor the arithmetic of
# passwords. Watching them took two fifths of the processor time of the tests of mail. SQLite's driver is watched, as is
# all of weir. A package that synchronizes by generic types of the library cannot be left out: the linker may take its
# copy of their code for all packages, and then the detector reports races where there are none.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory golang.org/x/crypto/argon2
RACE      := -race $(foreach packages,$(UNWATCHED),-gcflags=$(packages)=-race=false)

# Else every program that is built with it takes a second to end.
export GORACE := atexit_sleep_ms=0

# These take longest. go test starts packages in the order in which they are named.
LONGEST := ./app ./gate/httpgate ./cmd/weir ./console ./lab/demo ./gate/xdpgate ./store/sqlite ./internal/docstest \
	./lab/simulate ./internal/testkit/browser ./lab/flood ./throttle/stamp ./lab/bench ./gate/smtpgate ./mail/spool ./farm

# Rules of the house and of its language have targets of their own: make arch and make lint.
RULES := ./internal/arch ./internal/lint

# Two packages more are under way than there are processors, because tests also wait. Vetting is for lint, and nobody
# looks into these programs with a debugger.
CPUS := $(shell getconf _NPROCESSORS_ONLN)
TEST := $(GO) test -shuffle=on -vet=off -ldflags=-w -p $$(($(CPUS) + 2)) -parallel $$(($(CPUS) * 2))

# All packages but the rules, those that take longest first.
PACKAGES = $$({ $(GO) list $(LONGEST); $(GO) list ./... | grep -vxF "$$($(GO) list $(RULES))"; } | awk '!seen[$$0]++')

# In these nothing starts a goroutine: they compute, or look at files and at what other programs say. The race detector
# sees nothing there. make arch fails when one of them starts a goroutine.
SINGLE := . ./cmd/weir/roster ./config ./gate/httpgate/accesslog ./internal/docstest ./internal/gen/... \
	./internal/http1 ./internal/plot ./internal/queue ./internal/shown ./internal/stored ./internal/tabular \
	./internal/testkit/markdown ./internal/testkit/readers ./internal/testreport ./internal/words ./internal/yamltree \
	./lab/sheet ./mail/bounce ./throttle/outbreak

# What testreport prints ends with the names of tests that failed.
REPORT := $(GO) run ./internal/testreport

# Tests sync what they write, as weir does, and a disk takes its time for that. Nothing is learnt from it: make long uses
# the disk. So tests write to memory where there is plenty that programs can be started from. The name of the folder is
# short, as that of a socket in it is bounded.
IN_MEMORY = memory=$$(mktemp -d /dev/shm/w.XXXX 2>/dev/null) && trap 'rm -rf "$$memory"' EXIT && trap 'exit 130' INT TERM && \
	chmod 1777 "$$memory" && \
	[ "$$(df -Pk "$$memory" | awk 'NR == 2 { print $$4 }')" -ge 4194304 ] && \
	cp /bin/true "$$memory" && "$$memory/true" 2>/dev/null && \
	export GOTMPDIR="$${GOTMPDIR:-$${TMPDIR:-/tmp}}" TMPDIR="$$memory"

.PHONY: help demo run build setup test long mutants race lint arch generate generated fuzz benchmarks bench crosscheck cross release cover check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: build ## see it work: people and a flood before a throttled service (ARGS="--for 20s --json")
	./bin/weir demo $(ARGS)

run: build ## run weir with CONFIG (default: the smallest example)
	./bin/weir serve -c $(CONFIG) $(ARGS)

build: ## build bin/weir
	$(GO) build -o bin/weir ./cmd/weir

setup: ## install what the tests need besides Go (Debian, as root); elsewhere say what is missing
	@internal/tools/setup test

# Packages are compiled first, so that the time of the tests is theirs.
test: setup ## all tests, in random order
	@$(IN_MEMORY); packages="$(PACKAGES)"; start=$$(date +%s); \
	$(TEST) -run '^$$' $$packages >/dev/null; \
	echo "compiled in $$(($$(date +%s) - start)) s"; \
	$(REPORT) $(TEST) -json -timeout 20m $(ARGS) $$packages

race: setup ## the tests under the race detector, COUNT times over
	@internal/tools/setup race; $(IN_MEMORY); single=$$($(GO) list $(SINGLE)); \
	packages=$$(echo "$(PACKAGES)" | grep -vxF "$$single"); \
	$(REPORT) $(TEST) $(RACE) -json -timeout 60m -count=$(COUNT) $(ARGS) $$packages

long: setup ## all tests in full size, an hour of load among them
	@internal/tools/setup long; \
	WEIR_LONG=1 $(REPORT) $(TEST) -json -timeout 3h $(ARGS) ./...

mutants: ## would the tests of a package notice a mistake? (ARGS=./mail/spool)
	$(GO) tool -modfile=internal/tools/go.mod gremlins unleash --timeout-coefficient 10 $(or $(ARGS),./throttle/outbreak)

lint: ## format, vet, staticcheck, plain words
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -count=1 ./internal/lint

arch: ## the rules of the house: floors, imports, package docs
	$(GO) test -count=1 ./internal/arch

generate: ## make generated files again
	$(GO) generate ./...

# Compares the tree before and after, so that it also serves a tree with work in progress.
generated: ## fail when a generated file is not what its generator makes
	@command -v git >/dev/null 2>&1 && $(GIT) rev-parse HEAD >/dev/null 2>&1 || { echo "generated: skipped, no git checkout"; exit 0; }; \
	snapshot() { \
		$(GIT) diff --binary HEAD; \
		$(GIT) ls-files --others --exclude-standard | while read -r file; do cksum "$$file"; done; \
	}; \
	internal/tools/setup generate; \
	before=$$(snapshot | cksum) && \
	$(GO) generate ./... && \
	after=$$(snapshot | cksum) && \
	if [ "$$before" != "$$after" ]; then \
		echo "generated files differ from what is checked in; run 'make generate' and commit:"; $(GIT) status --short; exit 1; \
	fi

fuzz: ## run every fuzz test for FUZZTIME each
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed 's/:[0-9]*:func /:/' | sort | while IFS=: read -r file name; do \
		echo "fuzz: $$name in $${file%/*} for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$${file%/*}" </dev/null || exit 1; \
	done

# go test runs the benchmarks of one package after the other, so that they do not disturb each other. Here nobody reads
# their figures. Those that take longest come first. lab/golimiters is a module of its own.
BENCHMARKS := ./throttle/stamp ./cmd/weir ./throttle/reach ./gate/xdpgate

benchmarks: ## every benchmark of the packages once, so that none rots
	@{ printf '%s\n' $(BENCHMARKS); grep -rl --include='*_test.go' --exclude-dir=golimiters '^func Benchmark' . | sed 's,/[^/]*$$,,' | sort; } | \
	awk '!seen[$$0]++' | xargs -n 1 -P $$(($(CPUS) + 1)) \
	$(GO) test -run '^$$' -vet=off -ldflags=-w -bench . -benchtime 1x -short

bench: build ## side by side with its peers, against the targets
	@internal/tools/setup bench
	$(GO) run ./lab/bench $(ARGS)

EVERY := $(foreach system,linux darwin windows freebsd,$(system)/amd64 $(system)/arm64)

# A full build takes 100 seconds of a processor for each of them where nothing is cached, this 3.
crosscheck: ## type-check everything for every system and processor that weir is made for
	$(GO) run ./internal/gen/crosscheck $(EVERY)

cross: crosscheck ## build for every system and processor that weir is made for
	@for target in $(EVERY); do \
		echo "build: $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/weir || exit 1; \
	done

# What a release says of itself comes from the commit alone, so that the same commit gives the same bytes.
VERSION ?= $(shell $(GIT) describe --tags --match 'v[0-9]*' 2>/dev/null || echo v0.0.0-dev)
COMMIT  ?= $(shell $(GIT) rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell $(GIT) log -1 --format=%ct 2>/dev/null || echo 0)

# The maintainer that packages name. If you publish packages, write yourself. Mail to .invalid reaches nobody (RFC 2606).
MAINTAINER ?= The weir authors <maintainers@weir.invalid>

# What a release is for: this machine, unless TARGETS has others, as in TARGETS="linux/arm64 darwin/arm64", or all.
TARGETS ?= $(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)

release: ## what a version consists of, for this machine or TARGETS, into dist: binaries, packages, image, bills of materials, checksums
	$(GO) run ./internal/gen/release -out dist -version '$(VERSION)' -commit '$(COMMIT)' -epoch '$(SOURCE_DATE_EPOCH)' \
		-maintainer '$(MAINTAINER)' $(if $(filter all,$(TARGETS)),$(EVERY),$(TARGETS))

cover: setup ## test coverage by package
	$(GO) test -cover ./...

check: lint arch generated ## lint, rules of the house, generated files

clean: ## remove what was built
	rm -rf bin dist
