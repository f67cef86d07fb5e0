# flanx: build, demo, tests. "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO       ?= go
PKGS     ?= ./...
# Where threads and atomics meet, or unsafe code does: the race detector (and the
# checks that race builds switch on) earn their time here.
RACE_PKGS ?= ./dataplane/... ./encap/... ./control/... ./perf/... ./cmd/internal/...
FUZZTIME ?= 10s
BENCH    ?= .
DEMO     ?=
TOOL     := $(GO) tool -modfile=tools.mod
# Explicit flags win over those in GOFLAGS. Two packages at a time: tests bring up
# whole networks, and more of them at once only slow each other down.
BUILD    := -trimpath -buildvcs=auto -ldflags '-s -w'
TEST     := $(GO) test -buildvcs=false -p 2 -timeout 10m

# An etcd of its own kind for the tests that want a separate process: the one
# installed, or Debian's unpacked here, with no service started.
ETCD_DIR := $(CURDIR)/build/etcd
FLANX_ETCD ?= $(or $(shell command -v etcd),$(ETCD_DIR)/usr/bin/etcd)
export FLANX_ETCD

.PHONY: help build demo demo-clean test lint unit integration test-zerocopy race fuzz bench replay-compare cover deps readers clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	echo
	echo "  Variables: GOARCH=arm64 (build), DEMO='--keep' (demo), PKGS=./encap/... (lint, unit,"
	echo "  integration, bench, cover), RACE_PKGS, FUZZTIME=$(FUZZTIME), BENCH=$(BENCH)"

build: ## static flanxd and flanx into bin/ (for another machine: GOARCH=arm64)
	CGO_ENABLED=0 GOOS=linux $(GO) build $(BUILD) -o bin/ ./cmd/flanxd ./cmd/flanx

demo: build ## three hosts, a real etcd, every encapsulation on every way to the wire (root)
	exec bin/flanx demo $(DEMO)

demo-clean: build ## remove what "flanx demo --keep" left running
	exec bin/flanx demo --clean

test: deps readers lint ## everything: lint, all tests, race detector; installs what it needs
	@if [ "$$(id -u)" = 0 ]; then
		$(MAKE) --no-print-directory integration
	else
		echo "not root: tests that need network namespaces are skipped (sudo make test runs them)"
		$(MAKE) --no-print-directory unit
	fi
	$(MAKE) --no-print-directory race

lint: ## gofumpt, go vet, staticcheck, errorlint, sloglint, revive
	@unformatted=$$($(TOOL) gofumpt -l .)
	if [ -n "$$unformatted" ]; then
		echo "not formatted (go tool -modfile=tools.mod gofumpt -w FILE):" >&2
		echo "$$unformatted" >&2
		exit 1
	fi
	set -x
	$(GO) vet $(PKGS)
	$(TOOL) staticcheck $(PKGS)
	$(TOOL) go-errorlint $(PKGS)
	$(TOOL) sloglint -no-global all -msg-style lowercased $(PKGS)
	$(TOOL) revive -config .revive.toml -formatter friendly -set_exit_status $(PKGS)

unit: ## all tests that this user may run; results are cached
	$(TEST) $(PKGS)

integration: deps ## all tests as root: a test that would be skipped fails
	@if [ "$$(id -u)" != 0 ]; then
		echo "integration tests make network namespaces: run sudo make integration" >&2
		exit 1
	fi
	set -x
	CI=true $(TEST) -count=1 $(PKGS)

test-zerocopy: ## true zero copy, and its refusal, in a guest under QEMU; fetches what it needs (root)
	perf/zerocopy/run.sh build/zerocopy
	NIC=refuse perf/zerocopy/run.sh build/zerocopy

race: ## the packet path and the control half under the race detector
	CGO_ENABLED=1 $(TEST) -race $(RACE_PKGS)

fuzz: ## every fuzz target for FUZZTIME each
	@for pkg in $$($(GO) list $(PKGS)); do
		for target in $$($(GO) test -buildvcs=false -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do
			$(TEST) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"
		done
	done

bench: ## Go benchmarks with allocations, one package at a time
	$(GO) test -buildvcs=false -p 1 -run '^$$' -bench '$(BENCH)' -benchmem $(PKGS)

replay-compare: ## replay beside AF_XDP alone and tcpreplay, and on 4 GiB (root, minutes; apt install tcpreplay tcpdump)
	FLANX_COMPARE=1 CI=true $(GO) test -buildvcs=false -run '^TestCompare' -v -timeout 20m ./cmd/flanx

cover: ## coverage by function, and build/cover.html
	@mkdir -p build
	set -x
	$(TEST) -coverprofile=build/cover.out $(PKGS)
	$(GO) tool cover -html=build/cover.out -o build/cover.html
	$(GO) tool cover -func=build/cover.out

deps: ## what the tests need beyond Go: an etcd binary
	@if [ -x "$(FLANX_ETCD)" ]; then exit 0; fi
	if ! command -v apt-get >/dev/null; then
		echo "no etcd found, and no apt-get to fetch one: install etcd, or set FLANX_ETCD to its path" >&2
		exit 1
	fi
	mkdir -p "$(ETCD_DIR)"
	cd "$(ETCD_DIR)"
	# Unpacked, not installed: Debian's package would start a service.
	apt-get download etcd-server 2>/dev/null || { apt-get update -q && apt-get download etcd-server; }
	dpkg -x etcd-server_*.deb .
	rm etcd-server_*.deb
	"$(FLANX_ETCD)" --version

readers: ## tshark and tcpdump, by which the tests of replay read what it wrote (root, Debian)
	@if command -v tshark >/dev/null && command -v tcpdump >/dev/null; then exit 0; fi
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "no tshark and tcpdump here: the tests that need them are skipped"
		exit 0
	fi
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get install -y -qq --no-install-recommends tshark tcpdump || { apt-get update -q && apt-get install -y -qq --no-install-recommends tshark tcpdump; }; } >/dev/null \
		|| echo "tshark and tcpdump cannot be installed: the tests that need them are skipped"

clean: ## remove bin/ and build/
	rm -rf bin build
