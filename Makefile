# make alone lists the targets. Everything is run from here by people and by .ci/run alike.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --warn-undefined-variables

# Pinned tools. They stay out of go.mod: golangci-lint alone would add hundreds of lines to go.sum.
BUF_VERSION := v1.59.0
PROTOC_GEN_GO_VERSION := v1.36.10
PROTOC_GEN_GO_GRPC_VERSION := v1.5.1
GOLANGCI_VERSION := v2.12.2
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
TOOLS ?= $(CURDIR)/bin/tools
export PATH := $(TOOLS):$(PATH)

# What is tested: PKG and RUN narrow it.
PKG ?= ./...
RUN ?= .
COUNT ?= 100
FUZZTIME ?= 20s
BENCH ?= .
TIMEOUT ?= 20m
ARGS ?=
# What is simulated: SEED runs one run, SEEDS that many fresh ones; STEPS bounds each.
SEED ?= 0
SEEDS ?= 100
STEPS ?= 0
RELEASE ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The race detector needs cgo, and cgo a C compiler.
HAVE_CC := $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v $$(go env CC) >/dev/null 2>&1 && echo yes)
RACE := $(if $(HAVE_CC),-race,)

# Packages whose tests run clusters of real processes go one after the other, after the rest: two clusters at a time on a small machine
# measure each other. The simulator runs beside the rest: it has one goroutine, so the race detector could find nothing in it and only
# let it see fewer seeds. Every part runs even when another one failed.
PROCESS_TESTS := /cmd/(skiff|skiff/up|proctest|golden|powercut|restoretest|torture|endtoend)$$
SIMULATOR := /cmd/sim$$
# The race detector's runtime waits for a second at the end of every process, and some tests start many.
export GORACE := atexit_sleep_ms=100
define go_test
@packages=$$(go list $(PKG)); status=0; simulator=; \
run() { go test -shuffle=on -timeout $(TIMEOUT) -run '$(RUN)' "$$@"; }; \
simulated=$$(grep -E '$(SIMULATOR)' <<<"$$packages" || true); \
processes=$$(grep -E '$(PROCESS_TESTS)' <<<"$$packages" || true); \
plain=$$(grep -vE '$(PROCESS_TESTS)|$(SIMULATOR)' <<<"$$packages" || true); \
if [ -n "$$simulated" ]; then run $(2) $$simulated & simulator=$$!; fi; \
if [ -n "$$plain" ]; then run $(1) $$plain || status=1; fi; \
if [ -n "$$simulator" ]; then wait $$simulator || status=1; fi; \
if [ -n "$$processes" ]; then run $(1) -p 1 $$processes || status=1; fi; \
exit $$status
endef

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | while IFS=$$'\t' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

.PHONY: build
build: ## build skiff, quorumd and brokerd into bin/, static
	CGO_ENABLED=0 go build -trimpath -ldflags '-X github.com/skiffmq/skiff/cmd/version.release=$(RELEASE)' -o bin/ ./cmd/skiff $(wildcard ./cmd/quorumd ./cmd/brokerd)

.PHONY: up
up: build ## run three quorum nodes and three brokers on this machine until Ctrl-C (ARGS="--brokers 1")
	@exec bin/skiff up $(ARGS)

.PHONY: test
test: ## run every test, under the race detector where there is a C compiler (PKG, RUN narrow it)
	@[ -n "$(RACE)" ] || { echo 'test: no C compiler found, so the race detector is off'; [ -z "$${SKIFF_CI:-}" ]; }
	$(call go_test,$(RACE),)

.PHONY: race
race: ## run every test under the race detector, or fail when there is no C compiler
	@[ -n "$(RACE)" ] || { echo 'race: no C compiler found' >&2; exit 1; }
	$(call go_test,-race,-race)

.PHONY: stress
stress: ## run one test many times: make stress RUN=TestX PKG=./fsm COUNT=200
	go test $(RACE) -shuffle=on -failfast -timeout $(TIMEOUT) -count $(COUNT) -run '$(RUN)' $(PKG)

.PHONY: sim
sim: ## simulate whole clusters in virtual time: fresh seeds (SEEDS=1000) or one (SEED=42 STEPS=20000)
	go run ./cmd/sim -seed '$(SEED)' -seeds '$(SEEDS)' -steps '$(STEPS)' $(ARGS)

# Faults on a cluster of real processes: SECONDS of them, and OUT for the report; a SEED repeats schedule and workload.
SECONDS ?= 900
OUT ?=
TORTURE = go test -count=1 -v -timeout $$(($(1) + 1800))s -run TestNothingAcknowledgedIsLostUnderTorture ./cmd/torture -args -seconds '$(1)' -seed '$(SEED)' -out '$(abspath $(OUT))' $(ARGS)

.PHONY: verify
verify: ## kill, pause and starve real nodes for a minute while records flow, then check every acknowledged one (SEED=42)
	$(call TORTURE,60)

.PHONY: torture
torture: ## the same for SECONDS=900 (SEED=42 OUT=docs/runs/x.md)
	$(call TORTURE,$(SECONDS))

.PHONY: mutants
mutants: ## take one line of defence after another out of the sources, and see that a test notices (ARGS="-suite guard")
	go run ./cmd/mutants $(ARGS)

.PHONY: matrix
matrix: ## kill processes at every write, sync, rename and removal of a file, and judge what is left (RUN narrows it)
	SKIFF_TEST_POWERCUT=all go test -count=1 -v -timeout 120m -run '$(RUN)' ./cmd/powercut

.PHONY: fuzz
fuzz: ## run each fuzz target in turn for FUZZTIME (PKG, RUN narrow it)
	@.ci/fuzz '$(FUZZTIME)' '$(RUN)' '$(PKG)'

.PHONY: rewrite
rewrite: ## write the expectations of script tests anew; read the diff
	go test -run '$(RUN)' $$(grep -rlE --include='*_test.go' '"github.com/cockroachdb/datadriven"' . | xargs -n1 dirname | sort -u) -rewrite

.PHONY: bench
bench: ## run the benchmarks into bin/bench.new (BENCH, PKG narrow them)
	@mkdir -p bin
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count 10 -timeout 60m $(PKG) | tee bin/bench.new

.PHONY: bench-diff
bench-diff: ## compare bin/bench.old with bin/bench.new
	go run golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION) bin/bench.old bin/bench.new

.PHONY: check
check: lint breaking race clean-tree ## what CI asks, but for fuzzing

.PHONY: lint
lint: tools ## run golangci-lint and buf lint
	golangci-lint run ./...
	buf lint

.PHONY: fmt
fmt: tools ## format Go and protobuf
	golangci-lint fmt ./...
	buf format -w

.PHONY: proto
proto: tools ## lint the schema and generate Go from it
	buf lint
	buf generate --template proto/buf.gen.yaml

.PHONY: breaking
breaking: tools ## refuse a schema that breaks what logs and snapshots hold already
	buf breaking --against proto/baseline.binpb

.PHONY: baseline
baseline: tools ## make the present schema the one that later ones must not break
	buf breaking --against proto/baseline.binpb
	buf build --as-file-descriptor-set -o proto/baseline.binpb

.PHONY: tidy
tidy: ## go mod tidy
	go mod tidy

.PHONY: clean-tree
clean-tree: proto fmt tidy ## generate, format and tidy must change nothing
	git diff --exit-code

# Each tool has a stamp with its version in the name, so that a new pin installs it again.
define tool
$(TOOLS)/.$(1)@$(3):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS=-buildvcs=false go install $(2)@$(3)
	@rm -f $(TOOLS)/.$(1)@* && touch $$@
tools: $(TOOLS)/.$(1)@$(3)
endef

.PHONY: tools
tools: ## install buf, the protoc plugins and golangci-lint at their pins into bin/tools
$(eval $(call tool,buf,github.com/bufbuild/buf/cmd/buf,$(BUF_VERSION)))
$(eval $(call tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go,$(PROTOC_GEN_GO_VERSION)))
$(eval $(call tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc,$(PROTOC_GEN_GO_GRPC_VERSION)))
$(eval $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint,$(GOLANGCI_VERSION)))

.PHONY: clean
clean: ## remove bin/
	rm -rf bin
