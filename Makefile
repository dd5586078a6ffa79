# The one front door. `make help` lists what it does.
#
#   STORE=valkey|embedded       where `make run` keeps its bytes (valkey)
#   WORKFLOW=montage|blast      what `make run` runs (montage)
#   SIZE=normal|small           how much of it (normal)
#   NODES=N|MIN..MAX            storage nodes of the valkey store (what suits the size: 2..8)

STORE ?= valkey
WORKFLOW ?= montage
SIZE ?= normal
NODES ?=
TIDEFS := $(or $(CARGO_TARGET_DIR),target)/release/tidefs

.DEFAULT_GOAL := help
.PHONY: help setup build run test lint unit workflows churn killed suites soak kills tide fsx \
  bench clean programs litmus crashes crashed fuzz schedules testbed hosts network full growth local lent shares yields \
  tenants uring rings papers python package packages packaged steady level lived instances

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the machine lacks (system packages, a Valkey 9 server)
	scripts/setup

build: ## build the release binary
	scripts/setup build
	cargo build --release --locked -p tidefs-cli

run: ## run a real workflow on Tidefs, then on the disk, and compare
	scripts/setup run $(if $(filter embedded,$(STORE)),--without-server)
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 workflows/run.py --tidefs $(TIDEFS) --workflow $(WORKFLOW) \
	  --store $(STORE) $(if $(NODES),--nodes $(NODES)) --size $(SIZE)

# What hangs is ended, and fails, while there is time left to say which test it was.
LIMIT = timeout --foreground --kill-after=10 1200
PART = cargo test --workspace --locked --lib --bins --tests \
  --config "target.'cfg(unix)'.runner = ['$(CURDIR)/scripts/test-part', '$(1)']"

test: ## everything: formatting, lints, all tests, small real workflows
	scripts/setup test
	cargo fmt --all --check
	$(MAKE) --no-print-directory intruded
	$(MAKE) --no-print-directory unit
	$(MAKE) --no-print-directory -j2 --output-sync=target package rescaled workflows churn crashed lived joined inherited reached many-small provisioners-small provided slurm cluster-small handed
	$(MAKE) --no-print-directory -j2 --output-sync=target suites killed lent
	$(MAKE) --no-print-directory level

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Examples are compiled by the lints, and the documentation has none that run. Most tests wait for
# servers and mounts: twice as many at a time as a small machine has cores. What computes and waits for nothing
# takes what the others leave: such tests (scripts/test-part says which), and the lints.
unit unit-computing unit-waiting: export TIDEFS_BINARY = $(abspath $(TIDEFS))
unit unit-computing unit-waiting: export RUST_TEST_THREADS = $(shell echo $$(($$(nproc) * 2)))

unit:
	cargo build --release --locked -p tidefs-cli
	cargo test --workspace --locked --no-run --lib --bins --tests
	$(MAKE) --no-print-directory -j2 --output-sync=target unit-computing unit-waiting

.PHONY: unit-computing unit-waiting
unit-computing:
	nice -n 19 $(call PART,computing)
	nice -n 19 $(MAKE) --no-print-directory lint

unit-waiting:
	$(call PART,waiting)

workflows:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) /usr/bin/python3 workflows/tests.py
	for store in valkey embedded; do for workflow in montage blast; do \
	  $(LIMIT) /usr/bin/python3 workflows/run.py --tidefs $(TIDEFS) --workflow $$workflow \
	    --store $$store --size small || exit 1; \
	done; done

# What comes and goes at a steady state leaves memory, descriptors and threads as they were.
STEADY = /usr/bin/python3 trust/steady.py --tidefs $(TIDEFS)

level:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(STEADY) --seconds 25 --every 0.5

steady: ## an hour of making, moving, listing and removing files on each kind of file system: nothing grows
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(STEADY) --seconds 3600 --every 5

.PHONY: dashboard
dashboard: ## every query of the Grafana dashboard against a real Prometheus
	scripts/setup metrics
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) /usr/bin/python3 trust/dashboard.py --tidefs $(TIDEFS)

.PHONY: page
page: ## the page of a file system in a real browser: what it says, on screens of 320 to 1,920 pixels, by keyboard
	scripts/setup metrics
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) /usr/bin/python3 trust/page.py --tidefs $(TIDEFS)

.PHONY: scraped
scraped: ## what a scrape of metrics each second costs, and five browsers with the page
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 trust/scraping.py --tidefs $(TIDEFS)

# Nodes come and go under verified I/O, on both kinds of server.
SOAK = /usr/bin/python3 trust/soak.py --tidefs $(TIDEFS)

churn:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(SOAK) --seconds 120 --changes 6 --server usual --server /usr/bin/redis-server

# The manager is killed, on both kinds of server at once: before each fifth of its steps (`make kills`:
# before each), and all must be well again 10 s after its restart.
KILLS = cargo build --release --locked -p tidefs-cli && \
  { $(2) /usr/bin/python3 trust/kills.py --tidefs $(TIDEFS) $(1) & first=$$!; \
    $(2) /usr/bin/python3 trust/kills.py --tidefs $(TIDEFS) $(1) \
      --server /usr/bin/redis-server; second=$$?; wait $$first && exit $$second; }

killed:
	$(call KILLS,--stride 5 --within 10,$(LIMIT))

kills: ## kill the manager before every step of growing and shrinking; all is well again in 10 s
	scripts/setup test
	$(call KILLS,--within 10)
	$(call KILLS,--within 10 --each --stride 7)

# A mount is killed in the middle of its work, while another one goes on.
CRASHES = /usr/bin/python3 trust/crashes.py --tidefs $(TIDEFS)

crashed:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(CRASHES) --kills 2 --seconds 15
	$(LIMIT) trust/killed_staging.py --tidefs $(TIDEFS)

crashes: ## kill mounts again and again for ten minutes on each kind of server, and check what is left
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(CRASHES) --kills 1000 --seconds 600
	$(CRASHES) --kills 1000 --seconds 600 --seed 2 --server /usr/bin/redis-server

# Mounts come back in the same place, states are moved, full and left behind, strangers pry: seeded.
INSTANCES = trust/instances/__main__.py --tidefs $(TIDEFS)

lived:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(INSTANCES) --seconds 12

instances: ## ten minutes of random lives: mounts made again, states moved or left behind, strangers that pry
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(INSTANCES) --seconds 600

# Another user of the machine learns, changes and stops nothing, nor does who answers on another host.
.PHONY: intruded
intruded:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/intruders.py --tidefs $(TIDEFS)

# Hosts on this machine, and a file system on them; `trust/testbed.py down` removes both.
RATE ?= 100mbit

testbed: ## NODES=8 hosts on this machine, with links of RATE=100mbit, a node and a mount on each
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	trust/testbed.py up --nodes $(or $(NODES),4) --rate $(RATE) --tidefs $(TIDEFS)

# Memory is lent to a file system and wanted back.
SHARES = /usr/bin/python3 trust/shares.py --tidefs $(TIDEFS)
YIELDS = /usr/bin/python3 trust/yields.py --tidefs $(TIDEFS)

lent:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(SHARES) --shares 0.25 --stripes 200 --victims 2 --more 2
	$(LIMIT) $(YIELDS) --tries 3 --over 6 --deadline 30
	$(LIMIT) /usr/bin/python3 trust/starved.py --tidefs $(TIDEFS) --late 0.7

# A host that shares no directory joins, and leaves or dies.
.PHONY: joined
joined:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/joined.py --tidefs $(TIDEFS)

# The host that started a file system dies, and another one takes it over.
.PHONY: inherited succeeded heirs
inherited:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/heirs.py --tidefs $(TIDEFS) --times 1
	$(LIMIT) trust/silences.py --tidefs $(TIDEFS) --only whose_cable_is_out_is_succeeded
	$(LIMIT) trust/provided_heirs.py --tidefs $(TIDEFS)

succeeded: ## whoever took a file system over leaves or dies as well, hosts come late, and a filter refuses one who lives
	cargo build --release --locked -p tidefs-cli
	trust/successions.py --tidefs $(TIDEFS)
	trust/silences.py --tidefs $(TIDEFS)

# Each piece takes some minutes. The file has what became of each death; pieces that passed with the same program are run
# again only when all have passed. `trust/heirs.py --sum FILE` says how many there were, and how long they took.
HEIRS ?= target/heirs.jsonl

heirs: ## the host that started a file system dies two hundred times at random instants, and another one takes it over
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	trust/heirs.py --tidefs $(TIDEFS) --pieces 20 --times 10 --seed 1 --results $(HEIRS)
	$(LIMIT) trust/provided_heirs.py --tidefs $(TIDEFS) --check

# Hosts of a list, reached over SSH, which share nothing but the network.
.PHONY: reached
reached:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/over_ssh.py --tidefs $(TIDEFS)

# What is timed comes before all else on the machine, in a control group; `make many AHEAD=` where there can be none.
AHEAD ?= --ahead

# Many hosts of a list, and many that join at the same time.
.PHONY: many many-small
many-small:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/many_hosts.py --tidefs $(TIDEFS) --hosts 6 --agents 24

many: ## sixteen hosts over SSH and sixty-four agents at once: how long they take to come and to go, before all else here
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/many_hosts.py --tidefs $(TIDEFS) $(AHEAD) --check

# Hosts that a program provides, and takes away.
.PHONY: provided provisioned
provided:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/provisioned.py --tidefs $(TIDEFS)

# The same scenarios over this host, SSH, Slurm and a program of the user's.
.PHONY: provisioners provisioners-small
provisioners-small:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/provisioners.py --tidefs $(TIDEFS) --only local --only ssh

provisioners: ## nodes come, go, die and fail to come in the same way on this host, over SSH, in Slurm and by a program
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/provisioners.py --tidefs $(TIDEFS)

provisioned: ## hosts come from a program when they are wanted and go again, also from programs that fail, hang and do too much
	cargo build --release --locked -p tidefs-cli
	trust/provisioned.py --tidefs $(TIDEFS) --long

# In jobs of a real Slurm, on hosts that share nothing but the network.
.PHONY: slurm
slurm: ## jobs of a real Slurm on three hosts of this machine have a file system on all their nodes
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/under_slurm.py --tidefs $(TIDEFS)
	$(LIMIT) trust/burst_buffer.py --tidefs $(TIDEFS)
	$(LIMIT) trust/satellites.py --tidefs $(TIDEFS)

.PHONY: time-limit burst-buffer satellites
time-limit: ## the time of jobs of a real Slurm ends: what fits is staged out, what does not is named, nothing is left
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/under_slurm.py --tidefs $(TIDEFS) --long

satellites: ## nodes come as jobs of a real Slurm when they are wanted; also such as are cancelled, stay pending or lose their run
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/satellites.py --tidefs $(TIDEFS) --long

burst-buffer: ## jobs of a real Slurm get a file system by a line in their script; also those that are cancelled
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/burst_buffer.py --tidefs $(TIDEFS) --long

# A whole workflow on hosts that share nothing but the network, over SSH and in a job of a real Slurm.
CLUSTER = trust/cluster.py --tidefs $(TIDEFS)

.PHONY: cluster cluster-small vanished
cluster-small:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(CLUSTER) --over ssh --hosts 3 --tiles 3 --changes 1
	$(LIMIT) $(CLUSTER) --over slurm --hosts 3 --tiles 3 --changes 1

cluster: ## a Montage mosaic on four hosts that share nothing but the network, over SSH and in a job of Slurm, as on the disk
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(CLUSTER) --over ssh
	$(LIMIT) $(CLUSTER) --over slurm

vanished: ## a host vanishes with its network, and is given up; one whose cable is out for a moment is not
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/vanished.py --tidefs $(TIDEFS) --within 20

# A mount changes hands between processes under programs that check what they find.
.PHONY: handed
handed:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/handovers.py --tidefs $(TIDEFS) --times 10

handovers: ## five hundred times another process goes on with a mount, under programs that check what they find
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	trust/handovers.py --tidefs $(TIDEFS) --times 250
	trust/handovers.py --tidefs $(TIDEFS) --times 250 --others 1

shares: ## two own nodes and six lent ones: the share of the data on own nodes is what was asked for
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(SHARES) --results bench/results

yields: ## a tenant takes all its memory within a second, a hundred times, while some of it is lent
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(YIELDS)

hosts: ## nodes on hosts of a test bed: bandwidth that falls, links, metadata, local files, a cable pulled
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 trust/network.py --tidefs $(TIDEFS)
	/usr/bin/python3 trust/local.py --tidefs $(TIDEFS)
	/usr/bin/python3 trust/cable.py --tidefs $(TIDEFS)

# All of them: A,B,C,D,E,F,G,H.
CLOUDS ?= A,B,C,E

network: ## network-aware beside network-agnostic placement on eight hosts with links of CLOUDS=A,B,C,E
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 bench/network.py --tidefs $(TIDEFS) --clouds $(CLOUDS) --check

local: ## local beside striped placement on 1, 2, 4 and 8 nodes of this machine
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 bench/local.py --tidefs $(TIDEFS) --check

fuzz: ## a hundred times as much hostile input as `make test` feeds: replies, records, requests
	TIDEFS_FUZZ=100 cargo test --locked -p tidefs-fs --lib hostile
	TIDEFS_FUZZ=100 cargo test --locked -p tidefs-valkey --lib no_bytes
	TIDEFS_FUZZ=100 cargo test --locked -p tidefs-manager --lib any_bytes
	TIDEFS_FUZZ=100 cargo test --locked -p tidefs-cli control

# Redis keeps a stripe of 1 MiB in 1.25 MiB, and six of its nodes do not hold 1.2 GiB.
tide: ## write more than a node holds, read it back, delete it, and watch the nodes come and go
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 trust/tide.py --tidefs $(TIDEFS)
	/usr/bin/python3 trust/tide.py --tidefs $(TIDEFS) --server /usr/bin/redis-server --files 40

soak: ## twenty minutes on each kind of server: nodes come and go under verified I/O
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	for server in usual /usr/bin/redis-server; do \
	  $(SOAK) --seconds 1200 --changes 60 --judged --live-mib 2400 --node-memory 512MiB \
	    --server $$server || exit 1; done

# What judges a mount from outside, and two mounts of one file system.
suites:
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) trust/pjdfstest/run.py --tidefs $(TIDEFS)
	$(LIMIT) trust/fsx/run.py --tidefs $(TIDEFS) --embedded 140000 --valkey 60000
	$(LIMIT) /usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 10
	$(LIMIT) /usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 10 --store valkey --clocks
	$(LIMIT) /usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 3 --mounts 1 growing
	$(LIMIT) /usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 3 --store valkey stopped silent
	$(LIMIT) trust/programs.py --tidefs $(TIDEFS) --quick

# The Python package, with the system's own Python; `make python`: with every version there is.
PYTHON = python/check.py --tidefs $(TIDEFS) --ecosystem

package: rescale-library
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) $(PYTHON) --python /usr/bin/python3

python: ## the Python package on each Python from 3.9 to 3.13 that is installed
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	$(MAKE) --no-print-directory rescale-library
	$(PYTHON)

# The library for services that are not Tidefs, and examples that use it as they would.
.PHONY: rescale-library rescaled buckets
RESCALE := $(dir $(TIDEFS))libtidefs_rescale.so
BUCKETS = env TIDEFS_RESCALE_LIBRARY=$(abspath $(RESCALE)) PYTHONPATH=python/tidefs-rescale/src \
  target/python/keyvalue/bin/python examples/keyvalue/run.py --tidefs $(TIDEFS)

rescale-library:
	cargo build --release --locked -p tidefs-rescale-c

target/python/keyvalue/requirements.txt: examples/keyvalue/requirements.txt
	/usr/bin/python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	cp $< $@

# So few buckets do not come out as even, nor as quick, as many.
rescaled: rescale-library target/python/keyvalue/requirements.txt
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) /usr/bin/python3 examples/outside.py --library $(RESCALE)
	$(LIMIT) $(BUCKETS) --buckets 600 --servers 3 --most 6 --keys 6000 --rate 500 --weigh 1 --between 0.3 --above 25
	$(LIMIT) $(BUCKETS) --buckets 300 --servers 2 --most 5 --keys 3000 --rate 300 --weigh 1 --between 0.3 --above 25 --breaking

buckets: rescale-library target/python/keyvalue/requirements.txt ## key-value servers, 8 to 32 to 8, rescaled while clients use 20,000 buckets; figures beside `plan bench`
	cargo build --release --locked -p tidefs-cli
	$(BUCKETS) --at-once 8

packages: ## a .deb, a wheel, an archive and a container's recipe, which need no compiler, into out/packages
	scripts/setup packages
	/usr/bin/python3 packaging/build

packaged: packages ## install each package into an empty Debian without a compiler, run workflows, remove it
	/usr/bin/python3 packaging/test.py --packages out/packages

litmus: ## races between two mounts, five minutes on each store and as long while nodes come and go; between three, two
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 300 --verbose
	/usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 300 --verbose --churn
	/usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 120 --verbose --mounts 3
	/usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 120 --verbose --mounts 3 --store valkey --clocks
	/usr/bin/python3 trust/litmus --tidefs $(TIDEFS) --seconds 120 --verbose --mounts 1 growing

schedules: ## a hundred times as many orders of events on one file as `make test` tries
	TIDEFS_SCHEDULES=40000 cargo test --locked -p tidefs-fs --lib schedules

programs: ## git, cargo, SQLite, BLAST, tar, rsync, fio, stress-ng: on a mount as on the disk
	scripts/setup all
	cargo build --release --locked -p tidefs-cli
	trust/programs.py --tidefs $(TIDEFS)

fsx: ## ten million random operations on each store; takes hours
	scripts/setup test
	cargo build --release --locked -p tidefs-cli
	trust/fsx/run.py --tidefs $(TIDEFS) --embedded 10000000 --valkey 10000000

full: ## what a writer waits for at full nodes, and how even they are after; a quarter of an hour
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 bench/full.py --tidefs $(TIDEFS) --check; fast=$$?; \
	/usr/bin/python3 bench/full.py --tidefs $(TIDEFS) --rate 60 --up "--scale-out-at 70" --check && exit $$fast

growth: ## what more nodes on this machine cost, and directories of up to a million files
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli -p tidefs-bench
	/usr/bin/python3 bench/growth.py --tidefs $(TIDEFS) --bench $(TIDEFS)-bench --check

uring: ## what FUSE over io_uring gains, with libfuse's file system in memory
	scripts/setup bench
	scripts/build-libfuse
	cargo build --release --locked -p tidefs-bench
	/usr/bin/python3 bench/uring.py --bench $(TIDEFS)-bench

.PHONY: bench-hosts
bench-hosts: ## what encryption between hosts costs, and what eight hosts cost beside one
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli
	$(LIMIT) /usr/bin/python3 bench/between_hosts.py --tidefs $(TIDEFS) $(AHEAD) --check

rings: ## what a ring of each processor gains on a mount, beside the kernel's connection
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli -p tidefs-bench
	/usr/bin/python3 bench/rings.py --tidefs $(TIDEFS) --bench $(TIDEFS)-bench

tenants: ## what a lender's own programs, HPCC and Spark, lose while its memory is used
	scripts/setup tenants
	cargo build --release --locked -p tidefs-cli
	/usr/bin/python3 bench/tenants.py --tidefs $(TIDEFS) --check

papers: ## the papers' tables, as far as docs/REPRODUCTION.md argues for them; takes a minute
	cargo test --release --locked -p tidefs-sim --test papers -- --ignored

bench: ## measure both stores beside their floors; writes bench/results
	scripts/setup bench
	cargo build --release --locked -p tidefs-cli -p tidefs-bench
	$(TIDEFS)-bench --tidefs $(TIDEFS)
	$(TIDEFS)-bench --tidefs $(TIDEFS) --pinned --only null,embedded,valkey,raw --rounds 3
	/usr/bin/python3 bench/mounts.py --tidefs $(TIDEFS) --bench $(TIDEFS)-bench

clean: ## remove what was built here
	cargo clean
	rm -rf out
