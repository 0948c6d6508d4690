# All tasks of development. `make` without a target lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

ROOT   := $(CURDIR)
BIN    := $(ROOT)/bin
# The folder with Kubernetes' programs, which all targets use. Programs that the user has in KUBEBUILDER_ASSETS are linked there
# instead of built.
EXISTING := $(filter-out $(BIN)/kubernetes,$(abspath $(KUBEBUILDER_ASSETS)))
ASSETS := $(BIN)/$(if $(EXISTING),assets,kubernetes)
# The folders with a go.mod of their own. CONTRIBUTING.md has the reasons.
MODULES := . cmd/ringmaster demo examples examples/natscluster experiment hack kubernetes tools
TOOL    := go tool -modfile=$(ROOT)/tools/go.mod
NODE    := $(BIN)/node
NODE_DIR ?= /var/lib/ringmaster-node

# Additional arguments of `ringmaster up` and `go test`: make up ARGS='--data-dir data', make test ARGS='-run Proxy -v'
ARGS ?=

# The settings of an environment for other projects must not change the build.
export GOWORK := off
# One 'go test' runs the tests of these modules: the product, its command line, the demo and the examples.
WORKSPACE := GOWORK=$(ROOT)/hack/go.work
WORKSPACE_PACKAGES := ./... ./cmd/ringmaster/... ./demo/... ./examples/...
# Clones share compiled packages.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

##@ Use

.PHONY: up
up: build kubernetes ## Run the demo on this machine until Ctrl-C: docs/tutorial/demo.md
	@exec $(BIN)/ringmaster up --assets $(ASSETS) $(ARGS)

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./cmd/sharder
	go -C cmd/ringmaster build -o $(BIN)/ .
	go -C demo build -o $(BIN)/ringmaster-demo .
	go -C examples build -o $(BIN)/ ./webhosting ./etcdcluster ./etcdagent

# Not a part of build, because Prometheus' engine takes minutes to compile, and no other program needs it.
.PHONY: experiment
experiment: build kubernetes ## Build what 'ringmaster experiment' runs: docs/explanation/evaluation.md
	go -C experiment build -o $(BIN)/ringmaster-experiment .

##@ Test

# Tests print a line for each package when it ends, and the output of failed tests, at once and again at the end. With -v in
# ARGS they print all output. RECORDS has all output, too.
RECORDS := $(BIN)/test
GOTEST   = $(BIN)/gotestsum --format $(if $(filter -v,$(ARGS)),standard-verbose,pkgname-and-test-fails) \
             --format-hide-empty-pkg --hide-summary skipped --jsonfile $(RECORDS)/$@.json --
# GOGC trades memory for CPU time. At its end a process with the race detector waits for races; the default of 1 s is too long
# for commands that run hundreds of times.
TESTENV  = KUBEBUILDER_ASSETS=$(ASSETS) RINGMASTER_TEST_PROGRAMS=$(RECORDS) GOGC=400 GORACE=atexit_sleep_ms=100
SLOWEST  = echo 'The ten slowest tests:'; cat $(RECORDS)/$@*.json | $(BIN)/gotestsum tool slowest --num 10

.PHONY: test
test: kubernetes gotestsum ## Run the tests that every change must pass; needs no root
	@rm -f $(RECORDS)/test-*.json
	@# The tests of the root module take longest. The others run one after the other beside them.
	@code=0; $(MAKE) --no-print-directory -j2 -k test-root test-experiment test-hack test-ring test-mutants test-nats || code=$$?; \
	  $(SLOWEST); exit $$code

# Tests wait most of the time, so more packages run than there are cores. The longest packages start first.
LONGEST := ./demo ./examples/etcdcluster ./test/modes ./test/robustness ./pkg/coordination ./test/sharder ./test/skew \
           ./pkg/coordination/kubestore ./pkg/coordination/etcdstore ./examples/webhosting ./pkg/shard ./internal/controlplane ./examples \
           ./cmd/ringmaster ./internal/sharder/moves
.PHONY: test-root test-ring test-hack test-experiment test-mutants test-nats
test-root: test-programs
	$(WORKSPACE) $(TESTENV) $(GOTEST) -race -timeout 20m -p $$(( $$(nproc 2>/dev/null || echo 2) + 2 )) $(ARGS) \
	  $(LONGEST) $$($(WORKSPACE) go list $(WORKSPACE_PACKAGES) | grep -v -e '/internal/ring$$' $(LONGEST:.%=-e '%$$'))
test-ring: # statistics without goroutines, which the race detector makes ten times slower
	$(GOTEST) $(ARGS) ./internal/ring
test-hack: test-programs
	cd hack && $(TESTENV) $(GOTEST) -race -timeout 10m ./...
test-experiment: kubernetes test-programs
	cd experiment && $(TESTENV) $(GOTEST) -race -timeout 20m -p 1 $(ARGS) ./...
test-nats: kubernetes gotestsum # one scenario; test-nats-all has all of them
	cd examples/natscluster && $(TESTENV) $(GOTEST) -timeout 10m -run 'TestRollingRestart$$' ./...
test-mutants: # those that need no Kubernetes and take seconds
	@go -C hack run ./mutants -ci

# Builds the programs that tests of several packages start. Tests build other programs themselves.
# 'go test' reuses a cached result only if the modification times of the files that the test opened are the same. 'go build'
# changes these times even if it links nothing, and -buildvcs the content with each commit. So programs are built without
# -buildvcs, and the modification time of each is derived from its checksum.
LINK = $(WORKSPACE) go build -buildvcs=false -ldflags='-s -w'
.PHONY: test-programs
test-programs:
	@mkdir -p $(RECORDS)/race $(RECORDS)/plain
	@# In the workspace, because go compiles the root module's packages twice if it is a dependency elsewhere.
	@$(LINK) -race -o $(RECORDS)/race/ ./cmd/sharder ./cmd/ringmaster ./demo \
	  $$($(WORKSPACE) go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' ./examples/...)
	@$(LINK) -o $(RECORDS)/plain/ ./cmd/sharder ./examples/webhosting ./examples/etcdcluster ./examples/etcdagent
	@for program in $(RECORDS)/{race,plain}/*; do sum=$$(cksum <$$program); touch -d @$$(( $${sum% *} % 1000000000 )) $$program || true; done

.PHONY: gotestsum
gotestsum:
	@mkdir -p $(RECORDS)
	@go build -modfile=tools/go.mod -o $(BIN)/gotestsum gotest.tools/gotestsum

# The rest of the matrices of 'make test'.
.PHONY: test-long
test-long: kubernetes gotestsum test-programs ## Run the long tests that 'make test' leaves out (about 15 minutes)
	$(WORKSPACE) $(TESTENV) $(GOTEST) -race -tags long -timeout 40m $(ARGS) ./test/modes ./demo ./test/robustness ./pkg/coordination

.PHONY: test-all
test-all: test test-long mutants faults test-experiments test-nats-all e2e ## Run all tests that a release must pass

.PHONY: test-nats-all
test-nats-all: kubernetes gotestsum ## Run all scenarios of the NATS example on real servers (about 2 minutes)
	cd examples/natscluster && $(TESTENV) $(GOTEST) -timeout 20m -parallel 2 $(ARGS) ./...

# 'make test' runs the targets with their seeds only.
FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## Fuzz everything that reads foreign input, each target for FUZZTIME (1m)
	@for target in internal/sharder/admission:FuzzReview internal/sharder/leases:FuzzLease internal/sharder/rings:FuzzResources cmd/sharder/app:FuzzConfig; do \
	  go test -run '^$$' -fuzz "^$${target#*:}$$" -fuzztime $(FUZZTIME) $(ARGS) "./$${target%:*}" || exit 1; done

.PHONY: test-experiments
test-experiments: kubernetes ## Run a short version of every scenario of 'ringmaster experiment' (about 6 minutes)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C experiment test -tags experiments -timeout 20m -parallel 3 $(ARGS) ./command

# Packages whose tests use the rig or a control plane need Kubernetes.
.PHONY: test-unit
test-unit: ## Run the tests that need no Kubernetes: seconds
	@$(WORKSPACE) go test -race $(ARGS) $$($(WORKSPACE) go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $(WORKSPACE_PACKAGES) \
	  | grep -v -e ' .*internal/rig\b' -e ' .*internal/controlplane\b' | cut -d' ' -f1)

# 'go run' does not forward signals.
.PHONY: mutants
mutants: kubernetes ## Apply small changes that break the product, one at a time; each must make its test fail (about 5 minutes; ARGS='-run webhook' for some)
	@go -C hack build -o $(BIN)/mutants ./mutants
	@KUBEBUILDER_ASSETS=$(ASSETS) $(BIN)/mutants -C $(ROOT) -list $(ROOT)/hack/mutants/mutants.yaml $(ARGS)

.PHONY: faults
faults: kubernetes ## Inject faults into the processes of coordination (about 15 minutes)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C examples test -race -tags faults -timeout 40m $(ARGS) ./etcdcluster

.PHONY: soak
soak: kubernetes ## Disturb the sample operator under load for an hour, and check for growth (make soak ARGS='-duration 5m' is shorter)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C experiment test -tags soak -v -timeout 0 -run TestSoak ./test/soak $(ARGS)

# On the cluster of KUBECONFIG, or else on the node of 'make cluster-up', which is temporary unless it runs already.
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
	@KUBEBUILDER_ASSETS=$(ASSETS) hack/results.sh $(RESULTS)

.PHONY: bench-coordination
bench-coordination: kubernetes ## Compare the local and global modes of coordination (25 minutes; make bench-coordination ARGS=-runs=2 is shorter)
	KUBEBUILDER_ASSETS=$(ASSETS) go -C examples test -run '^$$' -bench Coordination -benchtime 1x -timeout 120m ./etcdcluster $(ARGS)

.PHONY: bench-coordination-nats
bench-coordination-nats: kubernetes ## Compare the same on NATS with JetStream (30 minutes; make bench-coordination-nats ARGS=-runs=2 is shorter)
	cd examples/natscluster && KUBEBUILDER_ASSETS=$(ASSETS) go test -run '^$$' -bench CoordinationNATS -benchtime 1x -timeout 120m . $(ARGS)

##@ Check and generate

LINTED := $(filter-out kubernetes tools,$(MODULES))
.PHONY: lint
lint: ## Check style, imports, and the language of documents, help, messages, comments and identifiers
	go -C hack run ./language -C $(ROOT)
	@for module in $(LINTED); do echo "golangci-lint in $$module"; (cd $$module && $(TOOL) golangci-lint run --allow-parallel-runners --config $(ROOT)/.golangci.yaml ./...); done
	cd kubernetes && $(TOOL) golangci-lint fmt --config ../.golangci.yaml --diff ./... # other linters would analyse all of Kubernetes

.PHONY: fmt
fmt: ## Format the code
	@for module in $(LINTED); do (cd $$module && $(TOOL) golangci-lint fmt --config $(ROOT)/.golangci.yaml ./...); done

.PHONY: generate
generate: ## Update all generated files
	$(TOOL) controller-gen object crd paths=./api/... output:crd:dir=config/crds
	cd examples && $(TOOL) controller-gen object crd paths=./webhosting/api/... output:crd:dir=webhosting/config/crds
	cd examples && $(TOOL) controller-gen object crd paths=./etcdcluster/api/... output:crd:dir=etcdcluster/config/crds
	$(TOOL) crd-ref-docs --source-path api --config hack/crd-ref-docs.yaml --renderer markdown --output-path docs/reference/api.md --log-level ERROR
	rm -rf $(BIN)/cli && mkdir -p $(BIN)/cli docs/reference
	go -C cmd/ringmaster run ./reference/ringmaster $(BIN)/cli
	go -C demo run ./reference $(BIN)/cli
	go -C experiment run ./reference $(BIN)/cli
	rm -rf docs/reference/cli && mv $(BIN)/cli docs/reference/cli
	go -C experiment run ./results ../docs
	go -C hack run ./publicapi -C .. -accepted publicapi/accepted.txt -explained publicapi/explained.txt ./pkg/... ./api/...

.PHONY: verify
verify: ## Fail if generated files or go.mod are stale, the exported API breaks users, documents name missing tests, or lint misses a forbidden import
	hack/verify.sh

.PHONY: picture
picture: build kubernetes ## Update the picture of the live view, from a running demo (about a minute)
	@mkdir -p docs/pictures
	@go -C demo build -o $(BIN)/picture ./picture
	@$(BIN)/picture -ringmaster $(BIN)/ringmaster -assets $(ASSETS) -o docs/pictures/live.svg

.PHONY: vulncheck
vulncheck: ## Check for known vulnerabilities (needs access to Go's vulnerability database)
	$(TOOL) govulncheck ./...

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	@for module in $(MODULES); do (cd $$module && go mod tidy); done

##@ Kubernetes

.PHONY: kubernetes
kubernetes: ## Build the programs of Kubernetes that KUBEBUILDER_ASSETS lacks, from Go modules (once; about 10 minutes)
	@command -v go >/dev/null || { echo "Go is missing: install Go 1.26 or newer and put it on the PATH." >&2; exit 1; }
	@go -C hack build -o $(BIN)/make-kubernetes ./kubernetes # 'go run' does not forward signals
	@exec $(BIN)/make-kubernetes -source $(ROOT)/kubernetes -o $(ASSETS) -existing '$(EXISTING)'

.PHONY: images
images: $(NODE) ## Build images of the programs as tars without Docker, and load them into the node if it runs
	@go -C hack run ./images -C $(ROOT) -o $(BIN)/images
	@$(NODE) load --dir $(NODE_DIR) --if-running $(BIN)/images/*.tar

.PHONY: cluster-up
cluster-up: kubernetes images ## Start a Kubernetes node on this machine (Linux, root)
	@$(NODE) up --dir $(NODE_DIR) --assets $(ASSETS) --images $(BIN)/images

.PHONY: cluster-down
cluster-down: $(NODE) ## Stop the node, and remove its files
	@$(NODE) down --dir $(NODE_DIR)

.PHONY: $(NODE)
$(NODE):
	@go -C hack build -trimpath -ldflags '-s -w' -o $@ ./node

.PHONY: clean
clean: ## Remove all built files
	rm -rf $(BIN)

.PHONY: help
help: ## List the targets
	@if [ -t 1 ]; then on='\033[36m' off='\033[0m'; else on= off=; fi; \
	awk -v on="$$on" -v off="$$off" 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %s%-14s%s %s\n", on, $$1, off, $$2}' $(MAKEFILE_LIST)
	@echo
