# SPDX-License-Identifier: MIT
# smcrd: SMC-R (RFC 7609) in user space.
#
#   make deps       the packages that a build needs (Debian 12); needs root
#   make            everything, below build/
#   make SAN=1      the same with address and undefined-behaviour sanitizers, below build/san/
#   make quickcheck  what needs neither root nor a second host, in a minute or two
#   make check      every test, after make check-deps, which installs what tests need; needs root
#   make demo       two hosts in network namespaces, traffic over SMC-R; needs root
#   make demo-smb   the same with Samba's programs over SMB Direct
#   make interop    with the kernel's rdma_rxe, rdma_cm and SMC-R, in virtual machines; needs root
#   make interop-quick  the most telling part of it, in some minutes
#   make bench-vm   speed against the kernel's SMC-R in the same virtual machines; needs root
#   make compat     real programs over TCP, over fallback and over SMC-R: are their results the same?
#   make soak FAILOVERS=n  links cut and mended under traffic between two hosts; needs root
#   make resets RESETS=n  connections reset in every way while their programs read shared memory; needs root
#   make endure HOURS=n  failovers, kills, reloads and attackers for hours; do memory and latency stay? needs root
#   make hostile    hostile users, programs, peers and packets beside verified traffic; SEED=n; needs root
#   make stress     test programs again and again on a busy machine: does a delay decide one? STRESS_SECONDS=n; needs root
#   make mutate     is the code broken on purpose noticed? RANDOM=n SEED=n FILES=..; needs root
#   make analyze    static analysis: gcc -fanalyzer and clang-tidy, each finding mended or explained
#   make model      the data path through shared memory, every order of steps
#   make sim SEEDS=n, make fuzz FUZZ_SECONDS=n, make bench, make conformance, make format, make clean
#   make deb        Debian packages, in build/deb; installs what that needs
#   make check-deb  are the packages right? installs, upgrades and purges them in a Debian below build; needs root
#   make check-deb-vm  their service where systemd is the first process of a virtual machine; needs root
#   make dist       build/smcrd-VERSION.tar.gz of what git knows; rpmbuild -ta makes packages of it (packaging/smcrd.spec)
#   make install    below PREFIX (/usr/local) and nowhere else, or below DESTDIR; make uninstall takes it away again
#
# Sources are found by directory: a new .c file needs no change here.

PREFIX ?= /usr/local
CC = gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
PKG_CONFIG ?= pkg-config
SEEDS ?= 200
FUZZ_SECONDS ?= 60
FAILOVERS ?= 100
HOURS ?= 8
RESTARTS ?= 100

VERSION := 0.1.0

# One short line a step; `make V=1` shows the commands.
ifeq ($(V),1)
say :=
else
say = @printf '  %-5s %s\n' $(1) $@;
endif

ifeq ($(SAN),1)
B := build/san
SAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# An address-sanitized preload library aborts ordinary programs: traps only.
PRELOAD_SAN_FLAGS := -fsanitize=undefined -fsanitize-undefined-trap-on-error
OPT ?= -O1
TEST_OPT ?= -O0
else
B := build
SAN_FLAGS :=
PRELOAD_SAN_FLAGS :=
OPT ?= -O2
TEST_OPT ?= -O1
endif

# Packages build with WERROR= : another compiler warns of other things.
WERROR = -Werror
WARN := -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wpointer-arith -Wwrite-strings -Wvla -Wundef -Wformat=2 \
	-Wno-missing-field-initializers -Wimplicit-fallthrough
BASE_CFLAGS := -std=c17 -D_GNU_SOURCE -DSMCRD_VERSION='"$(VERSION)"' -g $(OPT) $(WARN) -I. -I$(B)/gen \
	-MMD -MP -fstack-protector-strong $(CPPFLAGS)
PKGS := inih libevent libsystemd libnl-3.0 libnl-genl-3.0 libnl-route-3.0 jansson libbpf libisal libibverbs librdmacm
# Expanded when a recipe runs, so that `make check` can install the packages first.
PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PKGS))
PKG_LIBS = $(shell $(PKG_CONFIG) --libs $(PKGS))
CMOCKA_LIBS = $(shell $(PKG_CONFIG) --libs cmocka)
CURSES_LIBS = $(shell $(PKG_CONFIG) --libs ncursesw)
CFLAGS_ALL = $(BASE_CFLAGS) $(SAN_FLAGS) $(PKG_CFLAGS) $(CFLAGS)
LDFLAGS_ALL = $(SAN_FLAGS) $(LDFLAGS)

PROTO_SRCS := $(wildcard proto/*/*.c)
SMCR_SRCS := $(wildcard daemon/smcr/*.c)
SMBD_SRCS := $(wildcard daemon/smbdirect/*.c daemon/smbgate/*.c)
RPCR_SRCS := $(wildcard daemon/rpcrdma/*.c)
RNIC_SRCS := $(wildcard daemon/rnic/*.c daemon/rnic/*/*.c)
DAEMON_SRCS := $(wildcard daemon/rendezvous/*.c daemon/clients/*.c daemon/conns/*.c daemon/host/*.c \
	daemon/control/*.c daemon/bus/*.c daemon/events/*.c daemon/fabric/*.c daemon/policy/*.c daemon/cm/*.c)
# Both libraries are made of the same core, each of its own copy of it.
CORE_SRCS := $(wildcard lib/smcr/*.c)
PRELOAD_SRCS := $(wildcard lib/preload/*.c lib/inspect/*.c)
LIBSMCR_SRCS := $(wildcard lib/libsmcr/*.c)
SMCRCTL_SRCS := $(wildcard cli/smcrctl/*.c)
SMCRRUN_SRCS := $(wildcard cli/smcr-run/*.c lib/inspect/*.c)
SIM_SRCS := $(wildcard tests/sim/*.c)
CMSIM_SRCS := $(wildcard tests/cmsim/*.c)
RNICSIM_SRCS := $(wildcard tests/rnicsim/*.c) $(patsubst %,tests/sim/%.c,clock crash prng)
SMBDSIM_SRCS := $(wildcard tests/smbdsim/*.c)
TESTLIB_SRCS := $(wildcard tests/lib/*.c)
UNIT_SRCS := $(wildcard tests/unit/test_*.c)
PRELOAD_TEST_SRCS := $(wildcard tests/preload/test_*.c)
LIBSMCR_TEST_SRCS := $(wildcard tests/libsmcr/test_*.c)
EXAMPLE_SRCS := $(wildcard examples/*.c)
HELPER_SRCS := $(wildcard tests/programs/*.c)
TOOL_SRCS := $(wildcard tests/tools/*.c)
INTEROP_SRCS := $(wildcard tests/interop/*.c)
FUZZ_SRCS := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRCS := $(wildcard bench/*.c)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

PROTO_LIB := $(B)/lib/proto.a
SMCR_LIB := $(B)/lib/smcr.a
SMBD_LIB := $(B)/lib/smbdirect.a
RPCR_LIB := $(B)/lib/rpcrdma.a
RNIC_LIB := $(B)/lib/rnic.a
DAEMON_LIB := $(B)/lib/daemon.a
TEST_LIB := $(B)/lib/testlib.a
SMCRCTL_LIB := $(B)/lib/smcrctl.a

UNIT_BINS := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(UNIT_SRCS))
PRELOAD_TEST_BINS := $(patsubst tests/preload/%.c,$(B)/tests/preload/%,$(PRELOAD_TEST_SRCS))
LIBSMCR_TEST_BINS := $(patsubst tests/libsmcr/%.c,$(B)/tests/libsmcr/%,$(LIBSMCR_TEST_SRCS))
EXAMPLE_BINS := $(patsubst examples/%.c,$(B)/examples/%,$(EXAMPLE_SRCS))
HELPER_BINS := $(patsubst tests/programs/%.c,$(B)/tests/programs/%,$(HELPER_SRCS))
INTEROP_BINS := $(patsubst tests/interop/%.c,$(B)/tests/interop/%,$(INTEROP_SRCS)) \
	$(patsubst tests/interop/preload/%.c,$(B)/tests/interop/%.so,$(wildcard tests/interop/preload/*.c))
COMPAT_LIBS := $(patsubst tests/compat/preload/%.c,$(B)/tests/compat/%.so,$(wildcard tests/compat/preload/*.c))
TOOL_BINS := $(patsubst tests/tools/%.c,$(B)/tests/tools/%,$(TOOL_SRCS))
FUZZ_BINS := $(patsubst tests/fuzz/%.c,build/fuzz/%,$(FUZZ_SRCS))
BENCH_BINS := $(patsubst bench/%.c,$(B)/bench/%,$(BENCH_SRCS))

BINS := $(if $(wildcard daemon/main.c),$(B)/bin/smcrd) \
	$(if $(SMCRCTL_SRCS),$(B)/bin/smcrctl) $(if $(SMCRRUN_SRCS),$(B)/bin/smcr-run)
LIBSMCR_SONAME := libsmcr.so.0
LIBS := $(B)/lib/libsmcr-preload.so $(B)/lib/libsmcr.so

.PHONY: all tests check quickcheck compat demo demo-smb bench soak resets stress endure hostile sim fuzz fuzz-build conformance interop interop-quick bench-vm shell-check install uninstall dist deb check-deb check-deb-vm clean \
	format format-check deps check-deps model analyze mutate mutate-settings
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BINS) $(LIBS)

tests: $(B)/has-test-tools all $(UNIT_BINS) $(PRELOAD_TEST_BINS) $(LIBSMCR_TEST_BINS) $(EXAMPLE_BINS) $(HELPER_BINS) $(TOOL_BINS) $(INTEROP_BINS) \
	$(COMPAT_LIBS) $(BENCH_BINS) \
	$(if $(SIM_SRCS),$(B)/bin/smcr-sim) $(B)/bin/cm-sim $(B)/bin/rnic-sim $(B)/bin/smbd-sim

# ---- objects and archives

# Looked for before anything is compiled, so that the first message says what to do.
missing = { echo "make: a build needs $(1): 'sudo make $(2)' installs what is missing, on Debian 12" >&2; exit 1; }
$(B)/has-tools:
	@for tool in $(firstword $(CC)) $(CLANG) $(BPFTOOL) $(PKG_CONFIG); do \
		command -v "$$tool" >/dev/null || $(call missing,$$tool,deps); \
	done
	@for package in $(PKGS) ncursesw; do \
		$(PKG_CONFIG) --exists $$package || $(call missing,the headers of $$package,deps); \
	done
	@mkdir -p $(@D) && touch $@

$(B)/has-test-tools:
	@$(PKG_CONFIG) --exists cmocka || $(call missing,the headers of cmocka for its tests,check-deps)
	@mkdir -p $(@D) && touch $@

$(B)/obj/lib/%.o: lib/%.c | $(B)/has-tools
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(BASE_CFLAGS) $(PRELOAD_SAN_FLAGS) -fPIC -fvisibility=hidden $(CFLAGS) -c $< -o $@

# What the libraries need of proto/ is built once more, position independent and unsanitized.
$(B)/pic/%.o: %.c | $(B)/has-tools
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(BASE_CFLAGS) $(PRELOAD_SAN_FLAGS) -fPIC -fvisibility=hidden $(CFLAGS) -c $< -o $@

$(B)/obj/%.o: %.c | $(B)/has-tools
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS_ALL) -c $< -o $@

# Compilers take longer over the tests than over what they test, and the tests' own code is not what takes time.
$(B)/obj/tests/unit/%.o $(B)/obj/tests/preload/%.o $(B)/obj/tests/libsmcr/%.o: CFLAGS += $(TEST_OPT)

SKELETONS := $(patsubst daemon/rendezvous/bpf/%.bpf.c,$(B)/gen/%.skel.h,$(wildcard daemon/rendezvous/bpf/*.bpf.c))
$(call obj,$(wildcard daemon/rendezvous/*.c)): $(SKELETONS)

$(call obj,tests/tools/foreign_bpf.c): $(B)/gen/foreign.skel.h

define skeleton
	@mkdir -p $(@D)
	$(call say,BPF)$(CLANG) -g -O2 -Wall -Werror -target bpf -ffreestanding -ffile-prefix-map="$(CURDIR)=." -I. -I/usr/include/$(shell $(CC) -dumpmachine) \
		-MMD -MP -MT $@ -c $< -o $(B)/gen/$*.bpf.o
	$(call say,GEN)$(BPFTOOL) gen skeleton $(B)/gen/$*.bpf.o name $* > $@
endef

$(B)/gen/%.skel.h: daemon/rendezvous/bpf/%.bpf.c | $(B)/has-tools
	$(skeleton)

# Other people's BPF programs, for tests.
$(B)/gen/%.skel.h: tests/tools/bpf/%.bpf.c | $(B)/has-tools
	$(skeleton)

define archive
$(1): $(call obj,$(2))
	@mkdir -p $$(@D)
	$$(call say,AR)rm -f $$@ && $(AR) rcs $$@ $$^
endef
$(eval $(call archive,$(PROTO_LIB),$(PROTO_SRCS)))
$(eval $(call archive,$(SMCR_LIB),$(SMCR_SRCS)))
$(eval $(call archive,$(SMBD_LIB),$(SMBD_SRCS)))
$(eval $(call archive,$(RPCR_LIB),$(RPCR_SRCS)))
$(eval $(call archive,$(RNIC_LIB),$(RNIC_SRCS)))
$(eval $(call archive,$(DAEMON_LIB),$(DAEMON_SRCS)))
$(eval $(call archive,$(TEST_LIB),$(TESTLIB_SRCS)))
$(eval $(call archive,$(SMCRCTL_LIB),$(filter-out cli/smcrctl/main.c,$(SMCRCTL_SRCS))))

ALL_LIBS := $(DAEMON_LIB) $(RNIC_LIB) $(SMCR_LIB) $(SMBD_LIB) $(RPCR_LIB) $(PROTO_LIB)

# ---- programs and libraries

# All of the libraries: a name that two sources have would be taken from one of them silently otherwise.
$(B)/bin/smcrd: $(call obj,$(wildcard daemon/*.c)) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ -Wl,--whole-archive $^ -Wl,--no-whole-archive $(PKG_LIBS)

# It makes connections itself, by libsmcr's functions, and needs no library of ours to be found.
$(B)/bin/smcrctl: $(call obj,$(SMCRCTL_SRCS) $(LIBSMCR_SRCS) $(CORE_SRCS)) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(shell $(PKG_CONFIG) --libs jansson libbpf libisal ncursesw) -ldl

$(B)/bin/smcr-run: $(call obj,$(SMCRRUN_SRCS)) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^

# The preload library does not link libsmcr.so: it must load into any program, wherever the loader
# looks for libraries, and programs that use libsmcr as well keep their policies apart from its own.
CORE_OBJS := $(call obj,$(CORE_SRCS)) $(patsubst %.c,$(B)/pic/%.o,$(filter-out %/config_file.c %/cgroup_root.c,$(wildcard \
	proto/ipc/*.c)) $(wildcard proto/smcr/clc*.c) proto/smcr/eid.c proto/smcr/reason.c proto/smcr/tcpopt.c)
$(B)/lib/libsmcr-preload.so: $(call obj,$(PRELOAD_SRCS)) $(CORE_OBJS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -shared -Wl,-z,defs -Wl,-z,now $(LDFLAGS) -o $@ $^ -ldl

$(B)/lib/libsmcr.so.$(VERSION): $(call obj,$(LIBSMCR_SRCS)) $(CORE_OBJS) lib/libsmcr/libsmcr.map
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -shared -Wl,-z,defs -Wl,-z,now -Wl,-soname,$(LIBSMCR_SONAME) \
		-Wl,--version-script,lib/libsmcr/libsmcr.map $(LDFLAGS) -o $@ $(filter %.o,$^) -ldl

$(B)/lib/libsmcr.so: $(B)/lib/libsmcr.so.$(VERSION)
	$(call say,LN)ln -sf $(<F) $(@D)/$(LIBSMCR_SONAME) && ln -sf $(LIBSMCR_SONAME) $@

$(B)/bin/smcr-sim: $(call obj,$(SIM_SRCS)) $(TEST_LIB) $(SMCR_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^

$(B)/bin/cm-sim: $(call obj,$(CMSIM_SRCS)) $(TEST_LIB) $(DAEMON_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^

# The soft RNIC, with a host around it that is simulated (tests/rnicsim/world.h).
comma := ,
RNICSIM_WRAPS := malloc calloc realloc aligned_alloc free getrandom sched_yield \
	socket setsockopt getsockopt bind close sendmmsg sendto recvmmsg \
	event_new event_add event_active event_free alarm_now alarm_new alarm_free alarm_set alarm_clear \
	rnic_netdev_look soft_reader_new soft_reader_ask soft_reader_free
LINK_rnic-sim := $(patsubst %,-Wl$(comma)--wrap=%,$(RNICSIM_WRAPS))
$(B)/bin/rnic-sim: $(call obj,$(RNICSIM_SRCS)) $(TEST_LIB) $(RNIC_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) $(LINK_$(@F)) -o $@ $^ $(PKG_LIBS)

$(B)/bin/smbd-sim: $(call obj,$(SMBDSIM_SRCS)) $(TEST_LIB) $(SMBD_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^

# Tests that stand between the code and the C library, or the fabric.
BUS_TESTS := calls connection form limits objects signals tracked # those with tests/lib/busfix.c
$(foreach t,$(BUS_TESTS),$(eval LINK_test_bus_$(t) := -Wl,--wrap=fabric_qp_stats,--wrap=sd_bus_message_new_signal,--wrap=sd_bus_call_method_async))
LINK_test_clc_stream := -Wl,--wrap=spoken_alone,--wrap=spoken_say
LINK_test_cm_exhaustion := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
LINK_test_cm_kernel := -Wl,--wrap=open
LINK_test_cm_verbs := -Wl,--wrap=open,--wrap=log_message,--wrap=alarm_set,--wrap=alarm_clear
LINK_test_clients_exhaustion := -Wl,--wrap=calloc,--wrap=malloc,--wrap=realloc,--wrap=socketpair,--wrap=memfd_create,--wrap=epoll_create1,--wrap=epoll_ctl
LINK_test_clients_times := -Wl,--wrap=clock_gettime
LINK_test_clients_told := -Wl,--wrap=rdv_verify_socket
LINK_test_control_cm := -Wl,--wrap=cm_each_conn,--wrap=cm_each_listener,--wrap=cm_get_stats
LINK_test_control_smbdirect := -Wl,--wrap=smbgate_each,--wrap=smbgate_each_listener,--wrap=smbgate_get_stats,--wrap=smbgate_disconnect
LINK_test_control_cm_check := -Wl,--wrap=fabric_each_device
LINK_test_engine_exhaustion := -Wl,--wrap=calloc,--wrap=realloc
LINK_test_pair_calls := -Wl,--wrap=socketpair,--wrap=bind,--wrap=getsockopt,--wrap=send,--wrap=sendfile,--wrap=memfd_create,--wrap=ftruncate
LINK_test_policy := -Wl,--wrap=clock_gettime,--wrap=rdv_option_skip_peer,--wrap=rdv_option_unskip_peer,--wrap=rdv_option_set_rule,--wrap=rdv_option_rule_hits
LINK_test_poller := -Wl,--wrap=epoll_ctl
LINK_test_smbd_exhaustion := -Wl,--wrap=calloc,--wrap=realloc
LINK_test_smbgate_memory := -Wl,--wrap=rnic_mr_register,--wrap=rnic_mr_deregister
LINK_test_soft_exhaustion := -Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc,--wrap=nl_socket_alloc,--wrap=nl_connect,--wrap=eventfd,--wrap=timerfd_create,--wrap=socket,--wrap=pthread_create
LINK_test_manual := -Wl,--wrap=cm_each_conn,--wrap=cm_each_listener,--wrap=cm_get_stats,--wrap=smbgate_each,--wrap=smbgate_each_listener,--wrap=smbgate_get_stats,--wrap=rdv_option_skipped_peers,--wrap=rdv_option_get_listeners,--wrap=limits_each,--wrap=fabric_each_device,--wrap=fabric_qp_stats,--wrap=smcr_engine_walk_paths
LINK_test_soft_times := -Wl,--wrap=sendmmsg,--wrap=sendto,--wrap=soft_clock
LINK_test_verbs_memory := -Wl,--wrap=log_message

# Of smcrctl.
$(B)/tests/unit/test_firewall: $(B)/obj/cli/smcrctl/firewall.o
$(B)/tests/unit/test_capture: $(patsubst %,$(B)/obj/cli/smcrctl/%.o,capture_file frame pcapng)

$(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $(TEST_LIB) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) $(LINK_$(@F)) -o $@ -Wl,--start-group $^ -Wl,--end-group $(PKG_LIBS) $(CMOCKA_LIBS)

$(B)/tests/unit/test_smcrctl_%: $(B)/obj/tests/unit/test_smcrctl_%.o $(TEST_LIB) $(SMCRCTL_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS) $(CURSES_LIBS) $(CMOCKA_LIBS)

# The libraries' logic, linked into sanitized test programs.
lib_test_obj = $(patsubst %.c,$(B)/obj/lib-test/%.o,$(1))
PRELOAD_TEST_OBJS := $(call lib_test_obj,$(PRELOAD_SRCS) $(CORE_SRCS))
LIBSMCR_TEST_OBJS := $(call lib_test_obj,$(LIBSMCR_SRCS) $(CORE_SRCS))
$(B)/tests/preload/%: $(B)/obj/tests/preload/%.o $(PRELOAD_TEST_OBJS) $(TEST_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(CMOCKA_LIBS) -ldl

$(B)/tests/libsmcr/%: $(B)/obj/tests/libsmcr/%.o $(LIBSMCR_TEST_OBJS) $(TEST_LIB) $(PROTO_LIB)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(CMOCKA_LIBS) -ldl

# As a program of somebody else's would be built.
$(B)/examples/%: examples/%.c examples/example.h include/smcr.h $(B)/lib/libsmcr.so
	@mkdir -p $(@D)
	$(call say,CC)$(CC) -std=c99 -pedantic -D_POSIX_C_SOURCE=200809L -g $(OPT) -Wall -Wextra -Werror -Iinclude \
		-o $@ $< -L$(B)/lib -Wl,-rpath,$(abspath $(B)/lib) -lsmcr

$(B)/obj/lib-test/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS_ALL) -c $< -o $@

# Ordinary programs that tests run, plain on purpose.
$(B)/tests/programs/%: tests/programs/%.c
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(BASE_CFLAGS) $(CFLAGS) -o $@ $< -lpthread

$(B)/tests/programs/smcr_%: tests/programs/smcr_%.c include/smcr.h $(B)/lib/libsmcr.so
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(BASE_CFLAGS) $(CFLAGS) -Iinclude -o $@ $< -L$(B)/lib -Wl,-rpath,$(abspath $(B)/lib) -lsmcr

# Programs that tests run and that are made of parts of the daemon.
$(B)/tests/tools/%: $(B)/obj/tests/tools/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

# The daemon, with somebody between it and its RNICs.
$(B)/tests/tools/lying_smcrd: $(B)/obj/tests/tools/lying_smcrd.o $(call obj,$(wildcard daemon/*.c)) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -Wl,--wrap=rnic_post_send -o $@ $^ $(PKG_LIBS)

# Test programs for virtual machines (tests/interop/README.md).
$(B)/tests/interop/%: $(B)/obj/tests/interop/%.o $(TEST_LIB) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS) $(CMOCKA_LIBS)

# Its subjects are files of their own.
$(B)/tests/interop/cm_peer: $(call obj,tests/interop/cm_peer.c $(wildcard tests/interop/peer/*.c)) $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

$(B)/tests/interop/%.so: tests/interop/preload/%.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(BASE_CFLAGS) -fPIC -shared $(CFLAGS) -o $@ $< -ldl

# Preload libraries that real programs run under (tests/compat).
$(B)/tests/compat/%.so: tests/compat/preload/%.c
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(BASE_CFLAGS) -fPIC -shared -fvisibility=hidden $(CFLAGS) -o $@ $< -ldl

$(B)/bench/%: $(B)/obj/bench/%.o $(ALL_LIBS)
	@mkdir -p $(@D)
	$(call say,LD)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(PKG_LIBS)

# ---- fuzzing (libFuzzer)

# What the targets call is built once, instrumented; each links what it needs of it. clang does not
# read uthash's fall-through comments; gcc checks the same sources.
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_LIB := build/fuzz-obj/instrumented.a
build/fuzz-obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CLANG) $(BASE_CFLAGS) -Wno-implicit-fallthrough -Wno-format-nonliteral -O1 $(FUZZ_FLAGS) $(PKG_CFLAGS) -c $< -o $@

FUZZED_SMBGATE := compound offer serve
FUZZED_HOST := holder log log_writer pages privileges program route tcp_socket trace turns unix_socket waiting
$(patsubst %.c,build/fuzz-obj/%.o,$(wildcard daemon/rendezvous/*.c)): $(SKELETONS)
$(FUZZ_LIB): $(patsubst %.c,build/fuzz-obj/%.o,$(PROTO_SRCS) $(SMCR_SRCS) $(RNIC_SRCS) $(RPCR_SRCS) \
		$(wildcard daemon/smbdirect/*.c) $(FUZZED_SMBGATE:%=daemon/smbgate/%.c) \
		$(wildcard tests/lib/enginepair*.c daemon/clients/*.c daemon/conns/*.c daemon/rendezvous/*.c) \
		$(CORE_SRCS) $(FUZZED_HOST:%=daemon/host/%.c) \
		$(wildcard daemon/cm/*.c) \
		daemon/policy/rules.c daemon/control/scrape_request.c)
	$(call say,AR)rm -f $@ && $(AR) rcs $@ $^

build/fuzz/%: build/fuzz-obj/tests/fuzz/%.o $(FUZZ_LIB)
	@mkdir -p $(@D)
	$(call say,FUZZ)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $^ $(PKG_LIBS)

fuzz-build: $(FUZZ_BINS)

fuzz: fuzz-build
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh $(FUZZ_BINS)

# ---- tests, demo, measurements

deps:
	scripts/install-deps.sh --build

check-deps:
	scripts/install-deps.sh --build --check

check: check-deps
	scripts/check.sh

# What needs neither root nor a second host, in a minute or two.
quickcheck:
	scripts/check.sh --quick

demo: check-deps
	$(MAKE) -j$$(nproc) all
	scripts/demo.sh

demo-smb: check-deps
	$(MAKE) -j$$(nproc) all
	scripts/demo-smb.sh

bench: check-deps
	$(MAKE) -j$$(nproc) all tests
	scripts/bench.sh

soak: check-deps
	$(MAKE) -j$$(nproc) all tests
	FAILOVERS=$(FAILOVERS) scripts/soak.sh

# KINDS= some of them only
resets: check-deps
	$(MAKE) -j$$(nproc) all tests
	$(if $(RESETS),RESETS=$(RESETS)) $(if $(KINDS),KINDS="$(KINDS)") scripts/resets.sh

# STRESS_SECONDS= AT_ONCE= BUSY= BATS=yes ONLY=regexp
stress: check-deps
	$(MAKE) -j$$(nproc) all tests
	$(MAKE) -j$$(nproc) SAN=1 tests
	scripts/stress.sh

endure: check-deps
	$(MAKE) -j$$(nproc) all tests
	HOURS=$(HOURS) $(if $(SEED),SEED=$(SEED)) scripts/endure.sh

# ATTACKS= some of them only, SEED=n
hostile: check-deps
	$(MAKE) -j$$(nproc) all tests
	tests/hostile/run $(if $(SEED),--seed $(SEED)) $(ATTACKS)

# Programs' packages are installed as they are needed.
compat: check-deps
	$(MAKE) -j$$(nproc) all tests
	tests/compat/run --write
	RESTARTS=$(RESTARTS) tests/compat/restarts.sh

interop: check-deps
	$(MAKE) -j$$(nproc) all $(INTEROP_BINS) $(HELPER_BINS)
	tests/interop/run

interop-quick: check-deps
	$(MAKE) -j$$(nproc) all $(INTEROP_BINS) $(HELPER_BINS)
	tests/interop/cm.sh --quick
	tests/interop/matrix.sh --quick

bench-vm: check-deps
	$(MAKE) -j$$(nproc) all $(INTEROP_BINS) $(BENCH_BINS)
	tests/interop/speed.sh

# Do tests notice when the code is broken? docs/testing.md; FILES=, RANDOM=n and SEED=n.
mutate: check-deps
	tests/mutate/run $(if $(RANDOM),--random $(RANDOM)) $(if $(SEED),--seed $(SEED)) $(FILES)

# How an object is compiled and a test program linked, for tests/mutate.
mutate-settings:
	$(info compile=$(CC) $(CFLAGS_ALL))
	$(info link=$(CC) $(LDFLAGS_ALL))
	$(info libs=$(PKG_LIBS) $(CMOCKA_LIBS))
	$(foreach v,$(filter LINK_%,$(.VARIABLES)),$(info link unit/$(v:LINK_%=%)=$($(v))))
	$(info libs of libraries=$(CMOCKA_LIBS) -ldl)
	$(info objects preload=$(PRELOAD_TEST_OBJS))
	$(info objects libsmcr=$(LIBSMCR_TEST_OBJS))
	$(info objects bats=$(call obj,$(PRELOAD_SRCS)) $(CORE_OBJS))
	$(info objects smcr-run=$(call obj,$(SMCRRUN_SRCS)))
	$(info compile library=$(CC) $(BASE_CFLAGS) -fPIC -fvisibility=hidden $(CFLAGS))
	$(info link library=$(CC) -shared -Wl,-z,defs -Wl,-z,now $(LDFLAGS))
	@:

# A run of cm-sim or smbd-sim is short: many fit into the time of one of smcr-sim.
sim: $(B)/bin/smcr-sim $(B)/bin/cm-sim $(B)/bin/rnic-sim $(B)/bin/smbd-sim
	$(B)/bin/smcr-sim --seeds $(SEEDS) --jobs $$(nproc) --coverage
	$(B)/bin/cm-sim --seeds $$((100 * $(SEEDS))) --jobs $$(nproc)
	$(B)/bin/rnic-sim --seeds $(SEEDS) --jobs $$(nproc)
	$(B)/bin/smbd-sim --seeds $$((100 * $(SEEDS)))

# gcc -fanalyzer and clang-tidy; FILES= some sources only.
analyze: check-deps $(SKELETONS)
	COMPILE='$(subst ','\'',$(CC) $(BASE_CFLAGS) $(PKG_CFLAGS))' scripts/analyze.py $(FILES)

# The data path through shared memory, every order of steps (docs/data-path.md).
model: check-deps
	tests/model/run.sh

# docs/conformance*.md from docs/requirements*.tsv and the proofs that a test run left.
conformance:
	scripts/conformance.py --proofs build/proofs.txt --write

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

format-check:
	git ls-files '*.c' '*.h' | xargs clang-format --dry-run -Werror

# It knows bats too: '! command' is no assertion there.
shell-check:
	git ls-files '*.sh' '*.bash' '*.bats' | xargs shellcheck

# ---- installation

# Below PREFIX only: a package, which has PREFIX=/usr, has its configuration in /etc.
SBINDIR = $(PREFIX)/sbin
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
PRELOADDIR = $(PREFIX)/lib/smcrd
UNITDIR = $(PREFIX)/lib/systemd/system
SYSCONFDIR = $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
DOCDIR = $(PREFIX)/share/doc/smcrd
MANDIR = $(PREFIX)/share/man
ZSHDIR = $(PREFIX)/share/zsh/site-functions
BPFTRACEDIR = $(PREFIX)/share/smcrd/bpftrace

# The bus looks below /usr/share and /etc only.
BUS_POLICY = $(PREFIX)/share/dbus-1/system.d/org.smcrd.conf

FILLED_EXAMPLES = $(wildcard examples/*.conf examples/*.container)

# MODE:SOURCE:TARGET
INSTALL_FILES = 755:$(B)/bin/smcrd:$(SBINDIR)/smcrd \
	755:$(B)/bin/smcrctl:$(BINDIR)/smcrctl \
	755:$(B)/bin/smcr-run:$(BINDIR)/smcr-run \
	644:$(B)/lib/libsmcr-preload.so:$(PRELOADDIR)/libsmcr-preload.so \
	644:$(B)/lib/libsmcr.so.$(VERSION):$(LIBDIR)/libsmcr.so.$(VERSION) \
	644:include/smcr.h:$(PREFIX)/include/smcr.h \
	644:etc/completion/smcrctl.bash:$(PREFIX)/share/bash-completion/completions/smcrctl \
	644:etc/completion/_smcrctl:$(ZSHDIR)/_smcrctl \
	644:systemd/smcrd.sysusers:$(PREFIX)/lib/sysusers.d/smcrd.conf \
	644:systemd/smcrd.catalog:$(PREFIX)/lib/systemd/catalog/smcrd.catalog \
	644:etc/dbus/org.smcrd.conf:$(BUS_POLICY) \
	$(foreach f,$(filter-out $(FILLED_EXAMPLES),$(wildcard examples/*)),644:$(f):$(DOCDIR)/$(f)) \
	$(foreach f,$(wildcard man/*.[1-9]),644:$(f):$(MANDIR)/man$(subst .,,$(suffix $(f)))/$(notdir $(f)))
# SOURCE:TARGET, with @NAMES@ of directories in them
INSTALL_FILLED = lib/libsmcr/smcr.pc.in:$(LIBDIR)/pkgconfig/smcr.pc \
	systemd/smcrd.service:$(UNITDIR)/smcrd.service \
	$(foreach f,$(FILLED_EXAMPLES),$(f):$(DOCDIR)/$(f)) \
	$(foreach f,$(wildcard etc/bpftrace/*.bt),$(f):$(BPFTRACEDIR)/$(notdir $(f)))
# POINTS_TO:LINK
INSTALL_LINKS = libsmcr.so.$(VERSION):$(LIBDIR)/$(LIBSMCR_SONAME) $(LIBSMCR_SONAME):$(LIBDIR)/libsmcr.so
# The operator's from then on, and what smcrd reads where that is not there.
INSTALL_CONF = $(SYSCONFDIR)/smcrd/smcrd.conf
SYSTEM_CONF := /etc/smcrd/smcrd.conf

fill = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|; s|@VERSION@|$(VERSION)|; s|@PRELOADDIR@|$(PRELOADDIR)|g; s|@SBINDIR@|$(SBINDIR)|; s|@BINDIR@|$(BINDIR)|'
part = $(word $(1),$(subst :, ,$(2)))
# The loader looks for libraries in these only.
update_loader = $(if $(filter x x/usr x/usr/local,x$(PREFIX)),[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig,:)
bus_hint = the system bus does not look for policies there: to have smcrd on it, cp $(BUS_POLICY) /etc/dbus-1/system.d/
define newline


endef

INSTALLED = $(foreach f,$(INSTALL_FILES),$(call part,3,$(f))) \
	$(foreach f,$(INSTALL_FILLED) $(INSTALL_LINKS),$(call part,2,$(f)))
# The directories that an installation on this host has made; those of a package are the package's.
MADE_DIRS = $(if $(DESTDIR),-,$(PREFIX)/share/smcrd/made-directories)
# Ours by name.
OWN_DIRS = $(filter %/smcrd %/smcrd/examples %/smcrd/bpftrace %/smcrd/smcrd.conf.d,$(BPFTRACEDIR) $(PREFIX)/share/smcrd \
	$(DOCDIR)/examples $(DOCDIR) $(PRELOADDIR) $(SYSCONFDIR)/smcrd/smcrd.conf.d $(SYSCONFDIR)/smcrd)

# The names of these places go through make, the shell, sed and systemd's unit files: what would be something else than
# a name there is refused at once, before anything is written. Slashes at the end, and double ones, mean nothing.
PLACES := DESTDIR PREFIX SBINDIR BINDIR LIBDIR PRELOADDIR UNITDIR SYSCONFDIR DOCDIR MANDIR ZSHDIR BPFTRACEDIR
UNFIT := | & ; < > ( ) $$ ` \ " ' * ? [ ] \# % :
is_unfit = $(strip $(filter-out 1,$(words x$($(1))x)) $(foreach c,$(UNFIT),$(findstring $(c),$($(1)))))
define check_place
$(if $(call is_unfit,$(1)),$(error $(1)=$($(1)): a blank or one of $(UNFIT) in the name of a directory does not work here; choose another one))
$(if $(filter-out DESTDIR,$(1)),$(if $(filter-out /%,$($(1))),$(error $(1)=$($(1)): this is no absolute path; DESTDIR= is for a staging directory)))
override $(1) := $(patsubst /,,$(abspath $($(1))))
endef
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(foreach place,$(PLACES),$(eval $(call check_place,$(place))))
endif

install: all
	@scripts/place.sh make $(MADE_DIRS) $(addprefix $(DESTDIR),$(sort $(patsubst %/,%,$(dir $(INSTALLED)))))
	$(foreach f,$(INSTALL_FILES),@install -m $(call part,1,$(f)) $(call part,2,$(f)) \
		$(DESTDIR)$(call part,3,$(f))$(newline))
	$(foreach f,$(INSTALL_FILLED),@$(fill) $(call part,1,$(f)) | \
		install -m 644 /dev/stdin $(DESTDIR)$(call part,2,$(f))$(newline))
	$(foreach f,$(INSTALL_LINKS),@ln -sf $(call part,1,$(f)) $(DESTDIR)$(call part,2,$(f))$(newline))
	@$(update_loader)
	@conf=$$(scripts/place.sh conf $(MADE_DIRS) etc/smcrd.conf $(DESTDIR)$(INSTALL_CONF) $(DESTDIR)$(SYSTEM_CONF)) && \
		echo "smcrd $(VERSION) is installed below $(DESTDIR)$(PREFIX), $$conf"
	$(if $(filter-out x/usr,x$(PREFIX)),@echo "$(bus_hint)")

# What the operator has changed stays, and what was there before.
uninstall:
	@rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@if cmp -s etc/smcrd.conf $(DESTDIR)$(INSTALL_CONF); then rm $(DESTDIR)$(INSTALL_CONF); \
		elif [ -e $(DESTDIR)$(INSTALL_CONF) ]; then \
		echo "$(DESTDIR)$(INSTALL_CONF) stays: it is not as it was installed"; fi
	@scripts/place.sh remove $(MADE_DIRS) $(addprefix $(DESTDIR),$(OWN_DIRS))
	@$(update_loader)

# What packages are made of.
dist:
	$(call say,TAR)scripts/dist.sh

# Debian packages, below build/deb.
deb:
	scripts/install-deps.sh --build --deb
	scripts/deb.sh

# The packages: lintian, rpmlint, and an installation in a Debian of their own. Needs root.
check-deb:
	scripts/install-deps.sh --build --deb --check --check-deb
	scripts/deb.sh
	bats tests/packages

# Their service under systemd as the first process of a virtual machine.
check-deb-vm:
	scripts/install-deps.sh --build --deb --check
	scripts/deb.sh
	$(MAKE) -j$$(nproc) all $(INTEROP_BINS) $(HELPER_BINS)
	tests/interop/service.sh

clean:
	rm -rf build

-include $(shell find build \( -path build/deb -o -path build/check-deb -o -path build/compat \) -prune -o -name '*.d' -type f -print 2>/dev/null)
