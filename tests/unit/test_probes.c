/* SPDX-License-Identifier: MIT */
/*
 * The probes of the engine, as a tracing tool uses them. ELF notes of this program tell where the
 * probes are, a semaphore switches each of them on, and a breakpoint in place of its nop shows that
 * it was reached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/smcr/probes.h"
#include "tests/lib/enginepair.h"

#define S PAIR_SERVER
#define C PAIR_CLIENT

#if defined(SMCRD_PROBES) && defined(__x86_64__)

#define NOP        0x90
#define BREAKPOINT 0xCC
#define PROBES     3

static struct probe {
	const char *name;
	uint8_t *place;
	volatile unsigned short *semaphore;
	volatile unsigned int fired;
} probes[PROBES] = { { "smc_tx_sendmsg" }, { "smc_rx_recvmsg" }, { "smcr_link_down" } };

/* A breakpoint is as long as a nop: the program goes on behind it. */
static void on_breakpoint(int signal, siginfo_t *info, void *context)
{
	const ucontext_t *ucontext = context;
	const uint8_t *place = (uint8_t *)ucontext->uc_mcontext.gregs[REG_RIP] - 1;
	(void)signal;
	(void)info;
	for (int i = 0; i < PROBES; i++)
		if (probes[i].place == place) {
			probes[i].fired++;
			return;
		}
	abort();
}

/* A note: location, base and semaphore as 64-bit numbers, then provider, name and arguments. */
static void take_note(const uint8_t *note, uintptr_t load)
{
	uint64_t numbers[3];
	const char *provider = (const char *)note + sizeof(numbers);
	const char *name = provider + strlen(provider) + 1;
	memcpy(numbers, note, sizeof(numbers));
	for (int i = 0; i < PROBES && !strcmp(provider, "smcrd"); i++)
		if (!strcmp(probes[i].name, name)) {
			assert_null(probes[i].place); /* each probe has one place */
			probes[i].place = (uint8_t *)(load + numbers[0]);
			probes[i].semaphore = (volatile unsigned short *)(load + numbers[2]);
		}
}

static void read_notes(const uint8_t *file, uintptr_t load)
{
	const ElfW(Ehdr) *elf = (const void *)file;
	const ElfW(Shdr) *sections = (const void *)(file + elf->e_shoff);
	const char *names = (const char *)file + sections[elf->e_shstrndx].sh_offset;
	for (unsigned int i = 0; i < elf->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, ".note.stapsdt") != 0)
			continue;
		const uint8_t *at = file + sections[i].sh_offset;
		const uint8_t *end = at + sections[i].sh_size;
		while (at < end) {
			const ElfW(Nhdr) *note = (const void *)at;
			at += sizeof(*note) + (note->n_namesz + 3) / 4 * 4;
			take_note(at, load);
			at += (note->n_descsz + 3) / 4 * 4;
		}
	}
}

static int note_load_address(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uintptr_t *)arg = info->dlpi_addr;
	return 1; /* the program itself comes first */
}

static int find_probes(void **state)
{
	const struct sigaction action = { .sa_sigaction = on_breakpoint, .sa_flags = SA_SIGINFO };
	struct stat st;
	uintptr_t load = 0;
	(void)state;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(file != MAP_FAILED);
	dl_iterate_phdr(note_load_address, &load);
	read_notes(file, load);
	munmap(file, (size_t)st.st_size);
	close(fd);
	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < PROBES; i++) {
		assert_non_null(probes[i].place);
		assert_int_equal(*probes[i].place, NOP);
		assert_int_equal(*probes[i].semaphore, 0);
		uint8_t *page = (uint8_t *)((uintptr_t)probes[i].place & ~(uintptr_t)4095);
		assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
		*probes[i].place = BREAKPOINT;
	}
	return 0;
}

static void trace(bool on)
{
	for (int i = 0; i < PROBES; i++) {
		*probes[i].semaphore = on;
		probes[i].fired = 0;
	}
}

static void expect(unsigned int sent, unsigned int received, unsigned int down)
{
	assert_int_equal(probes[0].fired, sent);
	assert_int_equal(probes[1].fired, received);
	assert_int_equal(probes[2].fired, down);
}

static void probes_are_reached_while_somebody_traces(void **state)
{
	int conn;
	struct pair *pair = pair_grouped(2, &conn);
	(void)state;
	trace(true);
	pair_send(pair, conn, C, 500, 1);
	pair_pump(pair);
	expect(1, 0, 0);
	pair_expect(pair, conn, S, 500, 1);
	expect(1, 1, 0);
	pair_fail_link(pair, C, pair_conn_view(pair, conn, C).link_number);
	pair_pump(pair);
	expect(1, 1, 2); /* one at each end of the connection */
	trace(false);
	pair_send(pair, conn, C, 500, 1);
	pair_pump(pair);
	pair_expect(pair, conn, S, 500, 1);
	expect(0, 0, 0);
	pair_free(pair);
}

#else

static int find_probes(void **state)
{
	(void)state;
	return 0;
}

static void probes_are_reached_while_somebody_traces(void **state)
{
	(void)state;
	skip(); /* the build has no probes, or the test does not know this processor's breakpoints
		 */
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probes_are_reached_while_somebody_traces),
	};
	return cmocka_run_group_tests_name("probes", tests, find_probes, NULL);
}
