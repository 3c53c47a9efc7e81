# homenode: `make run` and `make test` do everything on a fresh Debian 12+ or Ubuntu machine
# that has git and make.
SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS  += --no-print-directory
export CGO_ENABLED ?= 0
# An older Go fetches the toolchain that go.mod names.
export GOTOOLCHAIN ?= auto

# Looked for when first used. What need.sh says instead of a path is what is missing.
GO       = $(or $(GO_FOUND),$(eval GO_FOUND := $(shell sh scripts/need.sh go))$(if $(filter-out 0,$(.SHELLSTATUS)),$(error $(GO_FOUND)))$(GO_FOUND))
VERSION := $(shell sh scripts/version.sh)
LDFLAGS := -s -w -X main.version=$(VERSION)
FUZZTIME ?= 30s
# Property tests and the hostile simulator draw new cases in every run; SEED= takes the number that a run printed.
ifndef SEED
SEED := $(shell od -An -N7 -tu8 /dev/urandom | tr -d ' ')
endif
# What has goroutines is tested under the race detector. The rest has none: core may
# not import sync (imports_test.go), and a simulation runs one at a time.
PKGS  ?= ./...
RACE  := /(api|cmd|daemon|host)(/|$$)

.PHONY: all run build test test-arm64 check check-go check-modules check-docs bench bench-pairs bench-start bench-probe bench-placement bench-share-sim bench-share-host seeds seeds-smoke bench-share-virtual bench-balance bottle bottle-smoke bench-page pictures site mutate hostile soak kube kube-guest kube-scale openstack libvirt e2e generate fuzz tree install uninstall dist release test-packages test-release clean

all: build

build: ## the binary, ./homenode
	@total=$$($(GO) list -deps ./cmd/homenode 2> >(sh scripts/progress.sh) | wc -l); \
	$(GO) build -v -trimpath -ldflags '$(LDFLAGS)' -o homenode ./cmd/homenode 2>&1 | sh scripts/progress.sh $$total

# A released binary where there is one for this machine (RELEASES, HOMENODE_RELEASES=); BUILD=1 builds in any case.
run: ## watch this machine in observe mode, in the foreground
	@sh scripts/released.sh || { sh scripts/need.sh plan; $(MAKE) build; }
	@./homenode daemon --mode observe --status

# The race detector needs cgo. What has goroutines waits much, so that the rest is tested beside it, and four tests of a
# package at a time; make check has vet.
test: ## unit, property, golden and command-line tests
	@sh scripts/need.sh test
	@sh scripts/need.sh gcc libc6-dev hwloc-nox
	@sh scripts/need.sh dbus-daemon libvirt0 libxml2-utils gpg gpg-agent rpm || true # tests without them are skipped
	@echo 'property tests and hostile seeds: SEED=$(SEED)'
	@export RAPID_SEED=$(SEED); failed=; \
	programs=$$(bash e2e/fetch-prometheus.sh); PATH=$${programs:+$$programs:}$$PATH; \
	$(GO) list $(filter-out %/e2e/page,$(PKGS)) | { grep -E '$(RACE)' || true; } | CGO_ENABLED=1 xargs -r $(GO) test -race -vet=off -parallel 4 -timeout 20m & race=$$!; \
	$(GO) list $(filter-out %/e2e/page,$(PKGS)) | { grep -vE '$(RACE)' || true; } | xargs -r $(GO) test -vet=off -parallel 4 -timeout 20m || failed=1; \
	wait $$race || failed=1; \
	$(GO) -C e2e/page test -timeout 20m ./... || failed=1; \
	[ -z "$$failed" ] || { echo 'the same cases again: make test SEED=$(SEED)'; exit 1; }
	$(MAKE) test-arm64

# Measuring code is different on arm64; user-mode emulation runs it as it is.
test-arm64: ## unit tests of the measuring code on an emulated arm64
	@sh scripts/need.sh qemu-user || true
	@command -v qemu-aarch64 >/dev/null || { echo 'skipped: no qemu-aarch64 (package qemu-user) on this machine'; exit 0; }; \
	dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	for p in host/probe/kernel host/probe core/measure core/doctor core/topology/acpi ui/heat; do \
		GOARCH=arm64 CGO_ENABLED=0 $(GO) test -c -o "$$dir/t" ./$$p && (cd $$p && qemu-aarch64 "$$dir/t" -test.short -test.timeout 5m | tail -1 | sed "s|^|arm64 $$p: |"; exit $${PIPESTATUS[0]}); \
	done

# Both tools have a module of their own, so that nothing of them is in the product's.
TOOL = $(GO) tool -modfile=$(CURDIR)/scripts/tools/go.mod
# Functions that only tests of several packages call.
TESTS_ONLY := ^(core/control/concern/concerntest|core/plan/plantest|core/words/wordstest|host/internal/(bus|fault))/|Random\.(Float64|Normal)$$|Room\.Placements$$|Map\.SVG$$|ProcessKey\.UnmarshalText$$

# `make -j2 -O check` checks two of these at a time.
check: check-go check-modules check-docs ## what CI checks besides the tests: format, vet, staticcheck, dead and dense code, tidy modules, generated files

check-go:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo 'run: gofmt -w .'; exit 1; }
	$(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./...
	$(TOOL) staticcheck ./...
	@dead=$$($(TOOL) deadcode ./...); dead=$$(grep -vE '$(TESTS_ONLY)' <<<"$$dead" || true); [ -z "$$dead" ] || { echo "$$dead"; exit 1; }

check-modules:
	$(GO) mod tidy -diff
	$(GO) -C scripts/tools mod tidy -diff
	$(GO) -C packaging vet ./...
	$(GO) -C packaging mod tidy -diff
	$(GO) -C e2e/cri vet ./...
	$(GO) -C e2e/cri mod tidy -diff
	$(GO) -C e2e/page vet ./...
	$(GO) -C e2e/page mod tidy -diff
	@sh scripts/need.sh apt-utils createrepo-c gpg gpg-agent || true # tests without them are skipped
	$(GO) -C packaging test ./...
	$(GO) -C cluster/kube vet ./...
	$(GO) -C cluster/kube mod tidy -diff
	$(GO) -C cluster/kube test ./...
	@if command -v python3 >/dev/null; then cd integrations/openstack && python3 -m unittest discover -q -s tests -t .; else echo 'skipped: no python3 for integrations/openstack'; fi

check-docs:
	$(GO) run ./scripts/loose
	$(GO) run ./scripts/plain
	@if command -v mkdocs >/dev/null; then dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; sh scripts/site/build.sh "$$dir"; else echo 'skipped: no mkdocs for the site'; fi
	$(MAKE) generate
	git diff --exit-code -- docs packaging/kube
	@test -z "$$(git ls-files --others --exclude-standard docs)" || { echo 'not committed:'; git ls-files --others --exclude-standard docs; exit 1; }

bench: build ## benchmarks, raw output kept in bench/out
	@mkdir -p bench/out
	@{ uname -srm; nproc; grep -m1 'model name' /proc/cpuinfo || true; $(GO) version; } | tee bench/out/machine.txt
	$(GO) test -run '^$$' -bench . -benchmem -count 6 ./... | grep -v 'no test files' | tee bench/out/go.txt

bench-pairs: ## benchmarks of BASE (main) and of this tree by turns: medians and ratios; CASES="place scan start look hostile"
	$(GO) run ./bench/pairs -base $(or $(BASE),main) $(BENCHFLAGS) $(CASES)

bench-start: build ## what `homenode run -- true` costs beside numactl, with a daemon and without
	$(GO) run ./bench/start $(BENCHFLAGS)

bench-probe: ## the probe's kernels beside the same in C, sample by sample; raw output kept in bench/out
	@sh scripts/need.sh gcc libc6-dev
	@mkdir -p bench/out
	cd bench/probe && CGO_ENABLED=1 $(GO) vet . && CGO_ENABLED=1 $(GO) run . $(BENCHFLAGS) | tee ../out/probe.md

bench-placement: ## decision times beside Nova (fetched into a venv; BENCHFLAGS=-kubelet for the kubelet's managers too)
	$(GO) run ./bench/placement -speed -o bench/results $(BENCHFLAGS)
	$(GO) run ./bench/placement -curve -o bench/results -svg bench/results/placement-curve.svg

bench-share-sim: ## sharing in the simulator: 20 scenarios, 50 seeds, beside published rules, and what the controller costs
	$(GO) run ./bench/sharesim $(BENCHFLAGS)

bench-balance: ## the simulator's scenarios, 50 seeds on 2, 4 and 8 nodes, beside other policies
	$(GO) run ./bench/balance $(BENCHFLAGS)

# An hour, as root, on a machine with cgroup v2; ends with status 3 and says why where it cannot run.
bench-share-host: build ## what nginx feels of ffmpeg beside it, with nothing done, weights, homenode and sched_ext; report in bench/out/share
	@mkdir -p bench/out; $(GO) build -o bench/out/bench-share ./bench/share
	bench/out/bench-share $(BENCHFLAGS)

# As root. Debian starts the servers that it installs; the experiments start their own and need none of those.
EXPERIMENT ?=
seeds: build ## a published experiment with real programs on this machine: EXPERIMENT=redis (all; none lists them), SEEDFLAGS=-dry-run; report in bench/out/seeds
	@mkdir -p bench/out; $(GO) build -o bench/out/bench-seeds ./bench/seeds
	$(if $(EXPERIMENT),$(if $(filter -list -describe -dry-run -restore,$(SEEDFLAGS)),,@sh scripts/need.sh $$(bench/out/bench-seeds -packages $(EXPERIMENT)) || true))
	bench/out/bench-seeds $(if $(EXPERIMENT),,-list) $(SEEDFLAGS) $(EXPERIMENT)

# What cannot be installed is checked and named.
seeds-smoke: build ## each published experiment for some seconds, as processes: does it run? 5 minutes at most on 2 CPUs
	@mkdir -p bench/out; $(GO) build -o bench/out/bench-seeds ./bench/seeds
	@sh scripts/need.sh $$(bench/out/bench-seeds -packages -smoke) || true
	timeout 300 bench/out/bench-seeds -smoke all

SHARE_SEEDS ?= 1,1,2,3,4,5
bench-share-virtual: build ## the same by the guest's own clock, however busy the machine, with a latency goal, too; into bench/results/share-virtual.md and .csv; SHARE_SEEDS
	bash e2e/fetch.sh
	$(GO) run ./e2e/rig -lanes 2 -accel tcg -all -seeds $(SHARE_SEEDS) -run '^share\.(virtual|table)$$'
	cp e2e/out/share-virtual.csv bench/results/
	$(GO) run ./e2e/rig -share bench/results/share-virtual.csv >bench/results/share-virtual.md

# Guests one after the other: about three quarters of an hour for each seed on two idle CPUs. What each
# guest counted is kept in e2e/out as it ends.
BOTTLE_SEEDS  ?= 1,2,3,4,5
BOTTLE_SMOKE   = $(GO) run ./e2e/rig -lanes 2 -accel tcg -shape bottle-virtual -seeds 1,1 -run '^bottle\.two'
BOTTLE_ALL    := ten|six-guests|eight-guests|pods|database|services|service-pods|wide|wide-start|idle|idle-local|full|interleaved
BOTTLE_SCENES ?= $(BOTTLE_ALL)
bottle: ## the machine in a bottle: misses served by local memory under the kernel, other programs' rules and homenode, into bench/results/bottle.md (of some BOTTLE_SCENES: e2e/out/bottle.md); BOTTLE_SEEDS
	bash e2e/fetch.sh
	rm -rf e2e/out/bottle*
	failed=; \
	$(GO) run ./e2e/rig -lanes 1 -accel tcg -all -seeds $(BOTTLE_SEEDS) -run '^bottle\.($(BOTTLE_SCENES))(-served)?$$' $(E2EFLAGS) || failed=1; \
	cat e2e/out/bottle*/bottle.csv >e2e/out/counts.csv; \
	rm -rf e2e/out/bottle-virtual*; $(BOTTLE_SMOKE) || failed=1; \
	cat e2e/out/counts.csv e2e/out/bottle-virtual*/bottle.csv >e2e/out/bottle.csv; \
	$(GO) run ./e2e/rig -bottle e2e/out/bottle.csv >e2e/out/bottle.md; \
	[ -z "$$failed" ]
	[ '$(BOTTLE_SCENES)' != '$(BOTTLE_ALL)' ] || cp e2e/out/bottle.csv e2e/out/bottle.md bench/results/

bottle-smoke: ## a small bottle in virtual time, twice with one seed: minutes, and every count has to be the same
	bash e2e/fetch.sh
	rm -rf e2e/out/bottle-virtual*
	$(BOTTLE_SMOKE)

bench-page: ## what 20 viewers of the page cost a daemon with 1,000 workloads, into bench/results/page.md
	HOMENODE_PAGE_COST=$(CURDIR)/bench/results/page.md $(GO) test -count 1 -run '^TestPageCost$$' ./daemon

# Chromium draws; fonts differ from machine to machine, so that CI does not compare pictures.
pictures: ## the README's pictures in light and dark, from a simulated host: top, the page in chromium, and both in motion
	$(GO) run ./cmd/homenode demo --record docs
	$(GO) -C e2e/page test -count 1 -timeout 20m -run '^TestPictures$$' -pictures $(CURDIR)/docs

SITE ?= site
site: ## the handbook as a searchable site that needs no web server, in site/ (SITE); every link is checked
	@sh scripts/need.sh mkdocs-material
	@sh scripts/site/build.sh "$(SITE)"

# Which lines does no test hold in place? By hand: it takes seconds a mutant.
mutate: ## N random mutants (30) of PKG, each against the package's own tests; SEED= draws the same again
	$(GO) run ./scripts/mutate -n $(or $(N),30) -seed $(SEED) $(MUTATEFLAGS) $(PKG)

# By night: CI has fewer. A failure says its seed; FIRST= plays from there.
hostile: ## SEEDS of EVENTS hostile events each over the decisions: kills, hung calls, clocks, others who write; fresh seeds unless FIRST= names one
	GOGC=400 SEED=$(or $(FIRST),$(SEED)) SEEDS=$(or $(SEEDS),1000) EVENTS=$(or $(EVENTS),10000) $(GO) test -count 1 -timeout 0 -v -run '^TestHostile$$' ./sim/hostile

# A seed that fails is kept in sim/hostile/testdata/seeds.txt, and each go test plays it from then on.
soak: ## fresh hostile seeds for HOURS (1), then the daemon's loop for a simulated day beside 3,000 short-lived processes
	GOGC=400 SEED=$(SEED) SOAK_HOURS=$(or $(HOURS),1) $(GO) test -count 1 -timeout 0 -v -run '^TestSoak$$' ./sim/hostile
	SOAK_HOURS=24 SOAK_PROCESSES=3000 $(GO) test -count 1 -timeout 0 -v -run '^TestSoak$$' ./cmd/homenode

# About 600 s of CPU the first time; what was built is kept in ~/.cache/homenode/kube.
kube: ## the Kubernetes driver on a real kube-apiserver, kube-scheduler and (as root) kubelet, built from their source
	@export HOMENODE_KUBE_BIN=$$(bash cluster/kube/e2e/build.sh); cd cluster/kube; $(GO) test -count 1 -timeout 30m -v $(KUBEFLAGS) .; \
	[ "$$(id -u)" != 0 ] || [ -n '$(KUBEFLAGS)' ] || { dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) test -c -o "$$dir/kube.test" .; \
	HOMENODE_KUBE_NAMESPACES=1 bash e2e/namespaces.sh "$$dir/kube.test" -test.v -test.timeout 30m -test.run TestRealKubelet; }

kube-guest: ## the image and manifests for Kubernetes on a real kubelet and containerd, in an emulated guest of two nodes (minutes)
	@dist=$$(mktemp -d); trap 'rm -rf "$$dist"' EXIT; $(MAKE) dist KUBE=1 ARCH=amd64 DIST="$$dist"; \
	HOMENODE_KUBE_DIST=$$dist $(MAKE) kube KUBEFLAGS='-run TestGuest'

kube-scale: ## 200 nodes of 8 NUMA nodes on a real API server and scheduler, into bench/results/kube-scale.md
	@HOMENODE_KUBE_SCALE=$(CURDIR)/bench/results/kube-scale.md $(MAKE) kube KUBEFLAGS='-run TestScale'

openstack: build ## the scheduler's part and guests beside Nova, with the real Nova of PyPI (some minutes the first time)
	@HOMENODE=$(CURDIR)/homenode GO='$(GO)' sh integrations/openstack/run.sh $(OPENSTACKFLAGS)

libvirt: ## libvirt's own domain documents (of Debian's source package), placed and released, before its schema and its parser
	@sh scripts/need.sh libxml2-utils libvirt-clients || true
	@source=$$(bash scripts/libvirt-documents.sh) && HOMENODE_LIBVIRT_SOURCE=$$source $(GO) test -count 1 -v -run '^TestLibvirtDocuments$$' ./host/libvirt/domain

e2e: build ## the tests that need several NUMA nodes, in emulated guests
	bash e2e/fetch.sh
	$(GO) run ./e2e/rig $(E2EFLAGS)

generate: ## files that are made of others: the scheduler's objects, the README's pictures, manual pages, plain manifests
	sh host/scx/bpf/build.sh
	$(GO) run ./cmd/homenode topology --host testdata/hosts/sub-numa-cxl.json --svg docs/topology.svg
	$(GO) run ./cmd/homenode demo --record docs
	$(GO) run ./scripts/man docs/man
	sed -i -E "s/^(version|appVersion): .*/\1: $$(cat VERSION)/" packaging/kube/chart/Chart.yaml
	sed -i -E "s/^version = .*/version = \"$$(cat VERSION)\"/" integrations/openstack/pyproject.toml
	$(GO) -C packaging run ./pack -manifests kube/homenode.yaml

fuzz: ## every fuzz target for FUZZTIME
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$p; \
		done; \
	done

# What is installed where: packages are made of the same tree with PREFIX=/usr. The names of
# folders are the shell's, as "$$to": they may have spaces and quotes in them.
PREFIX ?= /usr/local
BINARY ?= homenode
SHOW   ?= ./homenode
export DESTDIR PREFIX BINARY SHOW
TO      = to=$$DESTDIR$$PREFIX doc=$$DESTDIR$$PREFIX/share/doc/homenode;

tree:
	@$(TO) \
	install -D -m 0755 "$$BINARY" "$$to/bin/homenode"; \
	install -D -m 0644 -t "$$to/share/man/man1" docs/man/homenode*.1; \
	install -D -m 0644 -t "$$to/share/man/man5" docs/man/homenode.yaml.5; \
	install -D -m 0644 -t "$$doc" LICENSE CHANGELOG.md; \
	GO='$(GO)' sh scripts/notices.sh >"$$doc/NOTICES"; \
	install -d "$$to"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d} "$$to/lib/systemd/system" "$$DESTDIR/etc"; \
	install -D -m 0644 -t "$$to/share/homenode/prometheus" packaging/prometheus/homenode.{rules,scrape}.yml; \
	install -D -m 0644 -t "$$to/share/homenode/grafana" packaging/grafana/homenode.json; \
	"$$SHOW" completion bash >"$$to/share/bash-completion/completions/homenode"; \
	"$$SHOW" completion zsh >"$$to/share/zsh/site-functions/_homenode"; \
	"$$SHOW" completion fish >"$$to/share/fish/vendor_completions.d/homenode.fish"; \
	sed "s|/usr/local/bin|$$PREFIX/bin|" packaging/systemd/homenode.service >"$$to/lib/systemd/system/homenode.service"; \
	[ -e "$$DESTDIR/etc/homenode.yaml" ] || install -m 0644 packaging/homenode.yaml "$$DESTDIR/etc/homenode.yaml"

install: build ## into /usr/local, or PREFIX; the service is neither enabled nor started
	@umask 022; $(MAKE) -s tree
	@[ -n "$$DESTDIR" ] || sh packaging/scripts/postinstall.sh configure

uninstall: ## what install put there, after every setting is put back; PURGE=1 also /etc/homenode.yaml and /var/lib/homenode
	@$(TO) \
	[ -n "$$DESTDIR" ] || PATH=$$PREFIX/bin:$$PATH sh packaging/scripts/preremove.sh remove; \
	rm -f "$$to"/{bin/homenode,share/man/man5/homenode.yaml.5,share/bash-completion/completions/homenode,lib/systemd/system/homenode.service} \
		"$$to"/share/man/man1/homenode{,-*}.1 "$$to"/share/{zsh/site-functions/_homenode,fish/vendor_completions.d/homenode.fish}; \
	rm -rf "$$doc" "$$to/share/homenode"; \
	if [ -n '$(PURGE)' ] || cmp -s packaging/homenode.yaml "$$DESTDIR/etc/homenode.yaml"; then rm -f "$$DESTDIR/etc/homenode.yaml"; fi; \
	[ -n "$$DESTDIR" ] || sh packaging/scripts/postremove.sh $(if $(PURGE),purge,remove)

# The same commit and the same Go give the same bytes, wherever and whenever.
DIST ?= dist
ARCH ?= amd64 arm64
dist: export GOFLAGS := -mod=readonly
dist: export GOAMD64 := v1
dist: export GOARM64 := v8.0
dist: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))
dist: ## deb, rpm, archives, container image, Helm chart, SBOM and checksums for amd64 and arm64 (ARCH), in dist/; KUBE=1: the image for Kubernetes, too
	@rm -rf "$(DIST)" && mkdir -p "$(DIST)"
	@stage=$$(mktemp -d); trap 'rm -rf "$$stage"' EXIT; out=$$(realpath "$(DIST)"); \
	for a in $(ARCH); do \
		GOARCH=$$a $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o "$$stage/homenode.$$a" ./cmd/homenode; \
	done; \
	for a in $(ARCH); do \
		$(MAKE) -s tree GO='$(GO)' DESTDIR="$$stage/$$a" PREFIX=/usr BINARY="$$stage/homenode.$$a" SHOW="$$stage/homenode.$$($(GO) env GOHOSTARCH)"; \
	done; \
	if [ -n "$(KUBE)" ]; then \
		for a in $(ARCH); do \
			GOARCH=$$a $(GO) -C cluster/kube build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o "$$stage/homenode-kube.$$a" .; \
		done; \
		GO='$(GO)' sh scripts/notices.sh cluster/kube . >"$$stage/NOTICES.kube"; \
	fi; \
	cd packaging && $(GO) run ./pack $(if $(KUBE),-kube) -arch '$(ARCH)' -stage "$$stage" -version '$(VERSION)' -epoch $$SOURCE_DATE_EPOCH -out "$$out"
	@cat "$(DIST)/SHA256SUMS"

# The commit must have the tag of VERSION. KEY= names the releaser's key in gpg, URL= the address that will serve RELEASE.
RELEASE ?= release
release: export KEY := $(KEY)
release: export URL := $(URL)
release: ## a release for a web server, in release/ (RELEASE): packages, binaries, images, notes, signed checksums, apt and yum repositories
	@sh scripts/need.sh apt-utils createrepo-c gpg gpg-agent xz-utils
	@mkdir -p "$(RELEASE)"; bash packaging/release.sh may "$(RELEASE)"
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(MAKE) dist KUBE=1 DIST="$$dir/dist"; \
	bash packaging/again.sh "$$dir/dist"; \
	bash packaging/release.sh make "$$dir/dist" "$(RELEASE)"

# By hand and before a release: minutes, root, debootstrap and the network.
test-packages: dist ## packages installed and removed in bare systems; built again elsewhere, the same bytes
	$(GO) -C packaging test ./...
	bash packaging/test.sh "$(DIST)"
	FRESH=1 bash packaging/again.sh "$(DIST)"

# By hand, as root: ten minutes the first time. REHEARSAL= keeps what was made, and makes it once.
test-release: ## a release with a key made for it; apt in bare Debian with systemd: install, upgrade while it enforces, remove, purge; the Ansible role
	@sh scripts/need.sh apt-utils createrepo-c gpg gpg-agent xz-utils debootstrap python3 ansible-core
	@dir=$${REHEARSAL:-$$(mktemp -d /var/tmp/homenode-release.XXXXXX)}; [ -n "$${REHEARSAL:-}" ] || trap 'rm -rf "$$dir"' EXIT; \
	bash packaging/rehearse.sh "$$dir"; \
	bash packaging/upgrade.sh "$$dir"; \
	bash integrations/ansible/test.sh "$$dir"

clean:
	rm -rf homenode dist site bench/out e2e/out
