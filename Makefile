# Everything that there is to do here. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

ROOT   := $(CURDIR)
BIN    := $(ROOT)/bin
ASSETS := $(BIN)/kubernetes
# Each folder with a go.mod of its own. See CONTRIBUTING.md for why there are several.
MODULES := . cmd/ringmaster demo examples examples/natscluster experiment hack kubernetes tools
TOOL    := go tool -modfile=$(ROOT)/tools/go.mod
NODE    := $(BIN)/node
NODE_DIR ?= /var/lib/ringmaster-node

# More arguments for `ringmaster up` and `go test`: make up ARGS='--data-dir data', make test ARGS='-run Proxy -v'
ARGS ?=

# What an environment sets for other projects must not change what is built here.
export GOWORK := off
# The modules whose tests one 'go test' runs: the product, its command line, the demo and the examples.
WORKSPACE := GOWORK=$(ROOT)/hack/go.work
WORKSPACE_PACKAGES := ./... ./cmd/ringmaster/... ./demo/... ./examples/...
# What was compiled in one clone is used in all others.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

##@ Use

.PHONY: up
up: build kubernetes ## Run the whole thing on this machine until Ctrl-C: docs/tutorial/demo.md
	@exec $(BIN)/ringmaster up --assets $(ASSETS) $(ARGS)

.PHONY: build
build: ## Build our programs into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./cmd/sharder
	go -C cmd/ringmaster build -o $(BIN)/ .
	go -C demo build -o $(BIN)/ringmaster-demo .
	go -C examples build -o $(BIN)/ ./webhosting ./etcdcluster ./etcdagent

# Not a part of build: Prometheus' engine takes minutes to compile, and nothing else needs it.
.PHONY: experiment
experiment: build kubernetes ## Build what 'ringmaster experiment' runs: docs/explanation/evaluation.md
	go -C experiment build -o $(BIN)/ringmaster-experiment .

##@ Test

# How tests are run: a line for each package as it ends, the whole output of whatever fails, at once and again at the end,
# and a record of all of it. With -v in ARGS everything is shown.
RECORDS := $(BIN)/test
GOTEST   = $(BIN)/gotestsum --format $(if $(filter -v,$(ARGS)),standard-verbose,pkgname-and-test-fails) \
             --format-hide-empty-pkg --hide-summary skipped --jsonfile $(RECORDS)/$@.json --
# Memory for time: control planes collect garbage less often. A process with the race detector waits for a second when it
# ends, for races that are about to happen; a tenth is enough for commands that run hundreds of times.
TESTENV  = KUBEBUILDER_ASSETS=$(ASSETS) RINGMASTER_TEST_PROGRAMS=$(RECORDS) GOGC=400 GORACE=atexit_sleep_ms=100
SLOWEST  = echo 'The ten slowest tests:'; cat $(RECORDS)/$@*.json | $(BIN)/gotestsum tool slowest --num 10

.PHONY: test
test: kubernetes gotestsum ## Run the tests that every change must pass; needs no root
	@rm -f $(RECORDS)/test-*.json
	@# The root module's tests take longest; all others run one after the other beside them. NATS comes last, when there is room.
	@code=0; $(MAKE) --no-print-directory -j2 test-root test-experiment test-hack test-ring test-mutants || code=$$?; \
	  $(MAKE) --no-print-directory test-nats || code=$$?; $(SLOWEST); exit $$code

# Most of the time tests wait for something, so there are more of them at work than there are cores. Those that take longest
# begin first; what is short runs together at the end.
LONGEST := ./test/modes ./demo ./cmd/ringmaster ./test/robustness ./test/sharder ./examples/webhosting ./pkg/coordination/kubestore \
           ./internal/sharder/moves ./examples/etcdcluster ./internal/controlplane ./test/skew ./pkg/coordination/etcdstore ./examples
.PHONY: test-root test-ring test-hack test-experiment test-mutants test-nats
test-root: test-programs
	$(WORKSPACE) $(TESTENV) $(GOTEST) -race -timeout 20m -p $$(( $$(nproc 2>/dev/null || echo 2) + 2 )) $(ARGS) \
	  $(LONGEST) $$($(WORKSPACE) go list $(WORKSPACE_PACKAGES) | grep -v -e '/internal/ring$$' $(LONGEST:.%=-e '%$$'))
test-ring: # statistics without goroutines, ten times slower with the race detector
	$(GOTEST) $(ARGS) ./internal/ring
test-hack: test-programs
	cd hack && $(TESTENV) $(GOTEST) -race -timeout 10m ./...
test-experiment: kubernetes test-programs
	cd experiment && $(TESTENV) $(GOTEST) -race -timeout 20m -p 1 $(ARGS) ./...
test-nats: kubernetes gotestsum # one scenario; test-nats-all has all of them
	cd examples/natscluster && $(TESTENV) $(GOTEST) -timeout 10m -run 'TestRollingRestart$$' ./...
test-mutants: # the few that need no Kubernetes and take seconds
	@go -C hack run ./mutants -ci

# Builds the programs that tests start once for all packages. Tests build any other program themselves.
# 'go test' caches a result only while the modification times of the files that the test opened are the same, and 'go build'
# changes them even if nothing is linked. So each program's modification time is derived from its checksum.
.PHONY: test-programs
test-programs:
	@mkdir -p $(RECORDS)/race $(RECORDS)/plain
	@go build -race -ldflags='-s -w' -o $(RECORDS)/race/ ./cmd/sharder
	@go -C cmd/ringmaster build -race -ldflags='-s -w' -o $(RECORDS)/race/ .
	@go -C demo build -race -ldflags='-s -w' -o $(RECORDS)/race/ .
	@cd examples && go build -race -ldflags='-s -w' -o $(RECORDS)/race/ $$(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./...)
	@go build -ldflags='-s -w' -o $(RECORDS)/plain/ ./cmd/sharder
	@go -C examples build -ldflags='-s -w' -o $(RECORDS)/plain/ ./webhosting ./etcdcluster ./etcdagent
	@for program in $(RECORDS)/{race,plain}/*; do sum=$$(cksum <$$program); touch -d @$$(( $${sum% *} % 1000000000 )) $$program || true; done

.PHONY: gotestsum
gotestsum:
	@mkdir -p $(RECORDS)
	@go build -modfile=tools/go.mod -o $(BIN)/gotestsum gotest.tools/gotestsum

# Matrices of which 'make test' has a part.
.PHONY: test-long
test-long: kubernetes gotestsum test-programs ## Run the long tests that 'make test' skips (about 15 minutes)
	$(WORKSPACE) $(TESTENV) $(GOTEST) -race -tags long -timeout 40m $(ARGS) ./test/modes ./demo ./test/robustness ./pkg/coordination

.PHONY: test-all
test-all: test test-long mutants faults test-experiments test-nats-all e2e ## Run all tests that a release must pass

.PHONY: test-nats-all
test-nats-all: kubernetes gotestsum ## Run all scenarios of the NATS example on real servers (about 2 minutes)
	cd examples/natscluster && $(TESTENV) $(GOTEST) -timeout 20m -parallel 2 $(ARGS) ./...

.PHONY: test-experiments
test-experiments: kubernetes ## Run every scenario of 'ringmaster experiment' for a moment, each to its report (about 6 minutes)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C experiment test -tags experiments -timeout 20m -parallel 3 $(ARGS) ./command

# A package whose tests use the rig or a control plane needs Kubernetes; the others are the units.
.PHONY: test-unit
test-unit: ## Run the tests that need no Kubernetes: seconds
	@$(WORKSPACE) go test -race $(ARGS) $$($(WORKSPACE) go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $(WORKSPACE_PACKAGES) \
	  | grep -v -e ' .*internal/rig\b' -e ' .*internal/controlplane\b' | cut -d' ' -f1)

# Not 'go run', which does not pass signals on.
.PHONY: mutants
mutants: kubernetes ## Break the product in small ways, one at a time; each must make its test fail (about 5 minutes; ARGS='-run webhook' for some)
	@go -C hack build -o $(BIN)/mutants ./mutants
	@KUBEBUILDER_ASSETS=$(ASSETS) $(BIN)/mutants -C $(ROOT) -list $(ROOT)/hack/mutants/mutants.yaml $(ARGS)

.PHONY: faults
faults: kubernetes ## Inject faults into coordination, on real processes (about 15 minutes)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C examples test -race -tags faults -timeout 40m $(ARGS) ./etcdcluster

.PHONY: soak
soak: kubernetes ## Disturb the sample operator under load for an hour, and look for growth (make soak ARGS='-duration 5m' is shorter)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C experiment test -tags soak -v -timeout 0 -run TestSoak ./test/soak $(ARGS)

# On the cluster that KUBECONFIG names, or else on a node that is there only for the tests, unless
# somebody started it before.
.PHONY: e2e
e2e: gotestsum $(if $(KUBECONFIG),,kubernetes images) ## Run the tests that need a real node, on a temporary node or on the cluster of KUBECONFIG
	@rm -f $(RECORDS)/e2e.json
	@code=0; KUBEBUILDER_ASSETS=$(ASSETS) NODE=$(NODE) NODE_DIR=$(NODE_DIR) GOTEST='$(GOTEST)' hack/e2e.sh $(ARGS) || code=$$?; $(SLOWEST); exit $$code

# The ratios are compared with those in test/bench/accepted.yaml.
BENCHED := $(RECORDS)/bench.txt
FIGURES  = go -C hack run ./figures -accepted ../test/bench/accepted.yaml
# ARGS select benchmarks; SIZES are flags of those in test/bench, and SHARE those of the one in experiment/.
SIZES ?=
SHARE ?=
.PHONY: bench bench-accept
bench: kubernetes ## Measure ratios, each with its reference in the same run, and fail if one is worse (about an hour; ARGS='-bench Share' for some)
	@mkdir -p $(RECORDS)
	@{ echo '# ARGS: $(strip $(ARGS) $(SIZES) $(SHARE))'; export KUBEBUILDER_ASSETS=$(ASSETS); \
	  $(if $(filter -bench -bench=%,$(ARGS)),:,go test -run '^$$' -bench . -benchtime 3x -timeout 30m $$(go list ./... | grep -v -e '/test/bench$$')) && \
	  go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench $(ARGS) $(SIZES) && \
	  go -C experiment test -run '^$$' -bench . -benchtime 1x -timeout 60m ./command $(ARGS) $(SHARE); } | tee $(BENCHED)
	@$(FIGURES) <$(BENCHED)
bench-accept: ## Accept the ratios that the last 'make bench' measured
	@$(FIGURES) -accept <$(BENCHED)

# RESULTS are the reports to measure, all by default: capacity, setups, size, rolling-update, rebalance, reconnect, chaos.
RESULTS ?=
.PHONY: results
results: experiment ## Measure the figures that documents quote, into docs/results (about an hour on 2 idle cores; RESULTS=chaos for one report)
	@hack/results.sh $(RESULTS)

.PHONY: bench-coordination
bench-coordination: kubernetes ## Measure what agreeing before acting is worth, local beside global (25 minutes; make bench-coordination ARGS=-runs=2 is shorter)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C examples test -run '^$$' -bench Coordination -benchtime 1x -timeout 120m ./etcdcluster $(ARGS)

.PHONY: bench-coordination-nats
bench-coordination-nats: kubernetes ## Measure the same on NATS with JetStream (30 minutes; make bench-coordination-nats ARGS=-runs=2 is shorter)
	cd examples/natscluster && KUBEBUILDER_ASSETS=$(ASSETS) go test -run '^$$' -bench CoordinationNATS -benchtime 1x -timeout 120m . $(ARGS)

##@ Keep in order

LINTED := $(filter-out kubernetes tools,$(MODULES))
.PHONY: lint
lint: ## Check style, import directions and the language of documents, help, messages and comments
	go -C hack run ./language -C $(ROOT)
	@for module in $(LINTED); do echo "golangci-lint in $$module"; (cd $$module && $(TOOL) golangci-lint run --config $(ROOT)/.golangci.yaml ./...); done
	cd kubernetes && $(TOOL) golangci-lint fmt --config ../.golangci.yaml --diff ./... # the rest would analyse all of Kubernetes

.PHONY: fmt
fmt: ## Format the code as lint wants it
	@for module in $(LINTED); do (cd $$module && $(TOOL) golangci-lint fmt --config $(ROOT)/.golangci.yaml ./...); done

.PHONY: generate
generate: ## Write all generated files anew
	$(TOOL) controller-gen object crd paths=./api/... output:crd:dir=config/crds
	cd examples && $(TOOL) controller-gen object crd paths=./webhosting/api/... output:crd:dir=webhosting/config/crds
	cd examples && $(TOOL) controller-gen object crd paths=./etcdcluster/api/... output:crd:dir=etcdcluster/config/crds
	rm -rf $(BIN)/cli && mkdir -p $(BIN)/cli docs/reference
	go -C cmd/ringmaster run ./reference/ringmaster $(BIN)/cli
	go -C demo run ./reference $(BIN)/cli
	go -C experiment run ./reference $(BIN)/cli
	rm -rf docs/reference/cli && mv $(BIN)/cli docs/reference/cli
	go -C experiment run ./results ../docs
	go -C hack run ./publicapi -C .. -accepted publicapi/accepted.txt -explained publicapi/explained.txt ./pkg/... ./api/...

.PHONY: verify
verify: ## Fail when generated files or go.mod are stale, the exported API breaks users, docs name tests that do not exist, or lint's rules have no teeth
	hack/verify.sh

.PHONY: picture
picture: build kubernetes ## Draw the picture of the live view anew, from a real one (about a minute)
	@mkdir -p docs/pictures
	@go -C demo build -o $(BIN)/picture ./picture
	@$(BIN)/picture -ringmaster $(BIN)/ringmaster -assets $(ASSETS) -o docs/pictures/live.svg

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs access to Go's vulnerability database)
	$(TOOL) govulncheck ./...

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	@for module in $(MODULES); do (cd $$module && go mod tidy); done

##@ Kubernetes

.PHONY: kubernetes
kubernetes: ## Build the control plane, kubelet and kubectl from Go modules (once; about 10 minutes)
	@command -v go >/dev/null || { echo "Go is missing: install Go 1.26 or newer and put it on the PATH." >&2; exit 1; }
	@go -C hack build -o $(BIN)/make-kubernetes ./kubernetes # not 'go run', which does not pass signals on
	@exec $(BIN)/make-kubernetes -source $(ROOT)/kubernetes -o $(ASSETS)

.PHONY: images
images: $(NODE) ## Build images of our programs without Docker, as tars and into the node if it runs
	@go -C hack run ./images -C $(ROOT) -o $(BIN)/images
	@$(NODE) load --dir $(NODE_DIR) --if-running $(BIN)/images/*.tar

.PHONY: cluster-up
cluster-up: kubernetes images ## Start a real node with pods and Services on this machine (Linux, root)
	@$(NODE) up --dir $(NODE_DIR) --assets $(ASSETS) --images $(BIN)/images

.PHONY: cluster-down
cluster-down: $(NODE) ## Stop that node and leave nothing behind
	@$(NODE) down --dir $(NODE_DIR)

.PHONY: $(NODE)
$(NODE):
	@go -C hack build -trimpath -ldflags '-s -w' -o $@ ./node

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf $(BIN)

.PHONY: help
help: ## List the targets
	@if [ -t 1 ]; then on='\033[36m' off='\033[0m'; else on= off=; fi; \
	awk -v on="$$on" -v off="$$off" 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %s%-14s%s %s\n", on, $$1, off, $$2}' $(MAKEFILE_LIST)
	@echo
