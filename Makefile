# weir. `make` lists what there is to do. Needs GNU make, a POSIX shell and Go; `make setup` says what else would help.

.DEFAULT_GOAL := help
SHELL := /bin/sh

GO       ?= go
CC       ?= cc
ARGS     ?=
CONFIG   ?= examples/quota.yaml
FUZZTIME ?= 10s
COUNT    ?= 3

# Version control plays no part in a build: it works in a tarball and in a checkout that somebody else owns.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS 2>/dev/null) -buildvcs=false)

# A peer that Debian has not is built from source, into a folder of its own.
PEERS     := $(CURDIR)/bin/peers
RATELIMIT := github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
export PATH := $(PEERS):$(PATH)

GIT := git -c safe.directory='$(CURDIR)'

# What tests need besides Go, as command:package. Debian's names. clang makes the programs for the kernel, to see whether those that
# are checked in are current; nobody needs it to build or run weir. Servers among them are not started: policy-rc.d sees to it meanwhile.
NEEDS := gcc:gcc git:git ip:iproute2 clang:clang llvm-strip:llvm nft:nftables npm:npm nginx:nginx haproxy:haproxy caddy:caddy postfix:postfix \
	swaks:swaks postfwd:postfwd strace:strace redis-server:redis-server h2load:nghttp2-client wrk:wrk curl:curl python3:python3 groff:groff-base zsh:zsh fish:fish systemd-analyze:systemd prometheus:prometheus promtool:prometheus

# A library of Python's is no command. Debian's Python has it where another one stands first on the path.
HAVE_REQUESTS = { python3 -c 'import requests' || /usr/bin/python3 -c 'import requests'; } >/dev/null 2>&1

# swaks speaks TLS with it.
HAVE_SSLEAY = perl -MNet::SSLeay -e 1 >/dev/null 2>&1

# Its headers are no command.
HAVE_LIBBPF = [ -e /usr/include/bpf/bpf_helpers.h ]

# Pages are looked at in a real browser, by any of its names.
HAVE_BROWSER = { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1

# The race detector needs a C compiler with headers; without one the tests run all the same, without it.
HAVE_CC = { echo '\#include <stdlib.h>' | $(CC) -E - || echo '\#include <stdlib.h>' | gcc -E -; } >/dev/null 2>&1

# The race detector does not watch SQLite, which is C turned into Go with locks of its own, nor the arithmetic of
# passwords. Watching them took two fifths of the processor time of the tests of mail. SQLite's driver is watched, as is
# all of weir. A package that synchronizes by generic types of the library cannot be left out: the linker may take its
# copy of their code for all packages, and then the detector reports races where there are none.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory golang.org/x/crypto/argon2
RACE      := -race $(foreach packages,$(UNWATCHED),-gcflags=$(packages)=-race=false)

# The race detector takes three to ten times as long, so make test uses it only where CI=true; make race and make long
# always do. In these packages no goroutines meet, and it never watches them in make test: they read sources and pages,
# and run other programs.
UNWATCHABLE := ./internal/arch ./internal/docstest ./internal/words

# Packages with single tests of that kind, which needs.Unwatched marks. Where the race detector watches such a package,
# these tests are left out. They tell their names by a file, and run after the others, without it.
TWICE = $$($(GO) list $$(grep -rlF --include='*_test.go' 'needs.Unwatched(' . | sed 's|/[^/]*$$||' | sort -u))

# Else every program that is built with it takes a second to end.
export GORACE := atexit_sleep_ms=0

# These take longest. go test starts packages in the order in which they are named.
LONGEST := ./app ./gate/httpgate ./cmd/weir ./console ./lab/demo ./gate/xdpgate ./store/sqlite ./internal/docstest \
	./lab/simulate ./internal/browser ./lab/flood ./throttle/stamp ./lab/bench ./gate/smtpgate ./mail/spool ./farm

# Tests mostly wait, so that two packages more are under way than there are processors, and twice as many tests in each
# of them. Vetting is for lint, and nobody looks into these programs with a debugger.
CPUS := $(shell getconf _NPROCESSORS_ONLN)
TEST  = $(GO) test $$race -timeout 40m -shuffle=on -vet=off -ldflags=-w -p $$(($(CPUS) + 2)) -parallel $$(($(CPUS) * 2))

# Tests sync what they write, as weir does, and a disk takes its time for that. Nothing is learnt from it: make long uses
# the disk. So tests write to memory where there is plenty that programs can be started from. The name of the folder is
# short, as that of a socket in it is bounded.
IN_MEMORY = memory=$$(mktemp -d /dev/shm/w.XXXX 2>/dev/null) && trap 'rm -rf "$$memory"' EXIT && trap 'exit 130' INT TERM && \
	chmod 1777 "$$memory" && \
	[ "$$(df -Pk "$$memory" | awk 'NR == 2 { print $$4 }')" -ge 4194304 ] && \
	cp /bin/true "$$memory" && "$$memory/true" 2>/dev/null && \
	export GOTMPDIR="$${GOTMPDIR:-$${TMPDIR:-/tmp}}" TMPDIR="$$memory"

.PHONY: help demo run build setup test long mutants race lint arch generate generated fuzz bench crosscheck cross release cover check clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: build ## see it work: people and a flood before a throttled service (ARGS="--for 20s --json")
	./bin/weir demo $(ARGS)

run: build ## run weir with CONFIG (default: the smallest example)
	./bin/weir serve -c $(CONFIG) $(ARGS)

build: ## build bin/weir
	$(GO) build -o bin/weir ./cmd/weir

setup: ## install what the tests need besides Go (Debian, as root); elsewhere say what is missing
	@missing=; \
	for need in $(NEEDS); do \
		command -v "$${need%%:*}" >/dev/null 2>&1 || missing="$$missing $${need##*:}"; \
	done; \
	$(HAVE_CC) || missing="$$missing gcc libc6-dev"; \
	$(HAVE_BROWSER) || missing="$$missing chromium"; \
	$(HAVE_LIBBPF) || missing="$$missing libbpf-dev"; \
	$(HAVE_SSLEAY) || missing="$$missing libnet-ssleay-perl"; \
	$(HAVE_REQUESTS) || missing="$$missing python3-requests"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
			echo "setup: installing$$missing"; \
			export DEBIAN_FRONTEND=noninteractive; \
			guard=/usr/sbin/policy-rc.d; \
			if [ ! -e $$guard ]; then printf '#!/bin/sh\nexit 101\n' > $$guard; chmod +x $$guard; else guard=; fi; \
			install() { apt-get install -y -qq --no-install-recommends "$$@" >/dev/null; }; \
			apt-get update -qq >/dev/null 2>&1 || echo "setup: apt-get update failed"; \
			install $$missing 2>/dev/null || for package in $$missing; do \
				install "$$package" || echo "setup: could not install $$package"; \
			done; \
			[ -z "$$guard" ] || rm -f $$guard; \
		else \
			echo "setup: not found:$$missing (installed by itself only as root on Debian)"; \
		fi; \
	fi; \
	if ! command -v service_cmd >/dev/null 2>&1; then \
		echo "setup: building envoyproxy/ratelimit"; \
		GOBIN='$(PEERS)' $(GO) install $(RATELIMIT) || \
			echo "setup: no envoyproxy/ratelimit: tests and measurements beside it are skipped (and fail where CI=true)"; \
	fi; \
	command -v exim4 >/dev/null 2>&1 || $(MAKE) --no-print-directory -s '$(PEERS)/exim4' || \
		echo "setup: no Exim: tests beside it are skipped (and fail where CI=true)"; \
	for module in internal/checks/*/; do \
		(cd "$$module" && $(GO) build -buildvcs=false -o /dev/null .) || \
			echo "setup: $$module cannot be built: tests that need it are skipped (and fail where CI=true)"; \
	done; \
	command -v redis-server >/dev/null 2>&1 || echo "setup: no redis-server: tests of the farm's pot, and measurements beside envoyproxy/ratelimit, are skipped (and fail where CI=true)"; \
	$(HAVE_CC) || echo "setup: no C compiler with headers: tests run without the race detector"; \
	$(HAVE_BROWSER) || echo "setup: no Chromium: tests of the pages are skipped (and fail where CI=true)"; \
	command -v ip >/dev/null 2>&1 || echo "setup: no iproute2: tests with network namespaces are skipped (and fail where CI=true)"; \
	command -v clang >/dev/null 2>&1 && $(HAVE_LIBBPF) || echo "setup: no clang or libbpf-dev: 'make generated' leaves the kernel's programs alone"; \
	command -v git >/dev/null 2>&1 || echo "setup: no git: 'make generated' is skipped"

# Debian installs one mail server only, and that is Postfix. Exim is unpacked beside it, with the libraries that are
# missing. It needs its user, as from the package, but not the right to become root.
$(PEERS)/exim4:
	@[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || { echo "exim4: unpacked only as root on Debian"; exit 1; }
	@echo "setup: unpacking Exim"
	@rm -rf '$(PEERS)/exim' && mkdir -p '$(PEERS)/exim/debs/partial'
	@download() { \
		apt-get install -y -qq --download-only --no-install-recommends -o APT::Sandbox::User=root \
			-o Dir::Cache::archives='$(PEERS)/exim/debs' exim4-daemon-light >/dev/null; \
	}; download 2>/dev/null || { apt-get update -qq >/dev/null && download; }
	@for deb in '$(PEERS)'/exim/debs/*.deb; do dpkg -x "$$deb" '$(PEERS)/exim' || exit 1; done
	@rm -rf '$(PEERS)/exim/debs' && chmod u-s '$(PEERS)/exim/usr/sbin/exim4'
	@id -u Debian-exim >/dev/null 2>&1 || \
		useradd --system --user-group --no-create-home --home-dir /var/spool/exim4 --shell /usr/sbin/nologin Debian-exim
	@printf '%s\n' '#!/bin/sh' 'at="$${0%/*}/exim"' \
		'LD_LIBRARY_PATH=$$(echo "$$at"/usr/lib/*-linux-gnu) exec "$$at/usr/sbin/exim4" "$$@"' > '$@.new'
	@chmod +x '$@.new' && mv '$@.new' '$@'

test: setup ## all tests, in random order (CI=true: with the race detector)
	@$(IN_MEMORY); \
	start=$$(date +%s); status=0; race=; all=$$($(GO) list $(LONGEST) && $(GO) list ./...); \
	all=$$(echo "$$all" | awk '!seen[$$0]++'); \
	if [ "$$CI" = true ] && $(HAVE_CC); then \
		rest=$$($(GO) list $(UNWATCHABLE)); watched=$$(echo "$$all" | grep -vxF "$$rest"); \
		race="$(RACE)"; left=$$(mktemp) || exit 1; \
		WEIR_TWICE="$$left" $(TEST) $(ARGS) $$watched || status=1; \
		race=; all=$$(echo "$$all" | grep -xF "$$rest"); \
		names=$$(sort -u "$$left" | paste -s -d '|' -); rm -f "$$left"; \
		[ -z "$$names" ] || $(TEST) -run "^($$names)$$" $(ARGS) $$(echo "$$watched" | grep -xF "$(TWICE)") || status=1; \
	fi; \
	$(TEST) $(ARGS) $$all || status=1; \
	seconds=$$(($$(date +%s) - start)); echo "tests took $$((seconds / 60)):$$(printf %02d $$((seconds % 60)))"; \
	exit $$status

long: setup ## all tests in full size, an hour of load among them, and mutants
	@if $(HAVE_CC); then race="$(RACE)"; else race=; fi; \
	set -x; WEIR_LONG=1 $(TEST) -timeout 2h $(ARGS) ./...
	$(GO) run ./internal/mutants

mutants: ## would the tests notice a mistake? (ARGS="-only spool -n 40 -seed 2")
	$(GO) run ./internal/mutants $(ARGS)

race: setup ## the tests COUNT times over, against rare interleavings
	@$(IN_MEMORY); \
	if $(HAVE_CC); then race="$(RACE)"; else race=; fi; \
	set -x; $(TEST) -count=$(COUNT) $(ARGS) ./...

lint: ## format, vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

arch: ## the rules of the house: floors, imports, package docs
	$(GO) test ./internal/arch

generate: ## make generated files again
	$(GO) generate ./...

# Compares the tree before and after, so that it also serves a tree with work in progress.
generated: ## fail when a generated file is not what its generator makes
	@command -v git >/dev/null 2>&1 && $(GIT) rev-parse HEAD >/dev/null 2>&1 || { echo "generated: skipped, no git checkout"; exit 0; }; \
	snapshot() { \
		$(GIT) diff --binary HEAD; \
		$(GIT) ls-files --others --exclude-standard | while read -r file; do cksum "$$file"; done; \
	}; \
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

bench: build ## side by side with its peers, against the targets
	$(GO) run ./lab/bench $(ARGS)

TARGETS := $(foreach system,linux darwin windows freebsd,$(system)/amd64 $(system)/arm64)

# A full build takes 100 seconds of a processor for each of them where nothing is cached, this 3.
crosscheck: ## type-check everything for every system and processor that weir is made for
	$(GO) run ./internal/gen/crosscheck $(TARGETS)

cross: crosscheck ## build for every system and processor that weir is made for
	@for target in $(TARGETS); do \
		echo "build: $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/weir || exit 1; \
	done

# What a release says of itself comes from the commit alone, so that the same commit gives the same bytes.
VERSION ?= $(shell $(GIT) describe --tags --match 'v[0-9]*' 2>/dev/null || echo v0.0.0-dev)
COMMIT  ?= $(shell $(GIT) rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell $(GIT) log -1 --format=%ct 2>/dev/null || echo 0)

# The maintainer that packages name. If you publish packages, write yourself. Mail to .invalid reaches nobody (RFC 2606).
MAINTAINER ?= The weir authors <maintainers@weir.invalid>

release: ## everything that a version consists of, into dist: binaries, packages, image, bills of materials, checksums
	$(GO) run ./internal/gen/release -out dist -version '$(VERSION)' -commit '$(COMMIT)' -epoch '$(SOURCE_DATE_EPOCH)' \
		-maintainer '$(MAINTAINER)' $(TARGETS)

cover: setup ## test coverage by package
	$(GO) test -cover ./...

check: lint arch generated ## lint, rules of the house, generated files

clean: ## remove what was built
	rm -rf bin dist
