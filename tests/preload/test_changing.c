/* SPDX-License-Identifier: MIT */
/*
 * A program that changes the list of pieces of a call while the call is under way, as another
 * thread may. Here the call itself makes the change: it copies to or from a page that cannot be
 * accessed, and the handler of the fault changes the list. The test plays the daemon. The list ends
 * at the end of a page, so whoever reads past its end is killed, and so is who never returns.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/preload/send_all.h"
#include "lib/smcr/next.h"
#include "lib/smcr/path.h"
#include "lib/smcr/ready.h"
#include "proto/path/receive.h"
#include "proto/path/send.h"

#define RING (16 * PATH_PAGE_SIZE)
#define SPAN (PATH_PAGE_SIZE + 2 * RING)
#define PAGE 4096u
#define MOST 20 /* pieces of a call: more than the library looks at at once */

static int fd, daemon_end, memfd;
static struct path_rx rx;
static struct path_tx tx;
static uint8_t *memory;

static struct ipc_memory granted = {
	.layout = { .length = SPAN,
		    .receive = { PATH_PAGE_SIZE, RING },
		    .send = { PATH_PAGE_SIZE + RING, RING } },
};

/* ---- the program */

static uint8_t *fence; /* a page that cannot be accessed until change_list() has run */
static uint8_t plain[2 * PAGE];
static struct iovec *list; /* `count` pieces, up to the end of a page */
static int count;
static void (*change_list)(void);
static struct sigaction cmockas; /* handler of faults */

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	const uintptr_t at = (uintptr_t)info->si_addr;
	(void)context;
	if (at - (uintptr_t)fence >= PAGE || mprotect(fence, PAGE, PROT_READ | PROT_WRITE) < 0)
		sigaction(signal_number, &cmockas, NULL); /* the same access fails the test now */
	else
		change_list();
}

/* @return a page with one behind it that is never to be accessed */
static uint8_t *map_page(int access)
{
	uint8_t *at = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	assert_int_equal(mprotect(at, PAGE, access), 0);
	return at;
}

/* Make a list: the first `before` bytes are elsewhere, then come bytes of the fence, then pieces
 * elsewhere. */
static void make_list(size_t before, size_t fenced, int more, size_t each)
{
	const struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct iovec pieces[MOST];
	assert_int_equal(sigaction(SIGSEGV, &action, &cmockas), 0);
	count = 0;
	if (before > 0)
		pieces[count++] = (struct iovec){ plain, before };
	pieces[count++] = (struct iovec){ fence, fenced };
	for (int i = 0; i < more; i++)
		pieces[count++] = (struct iovec){ plain + PAGE, each };
	list = (struct iovec *)(map_page(PROT_READ | PROT_WRITE) + PAGE) - count;
	memcpy(list, pieces, (size_t)count * sizeof(*list));
}

static void cut_after(int kept)
{
	for (int i = kept; i < count; i++)
		list[i].iov_len = 0;
}

/* ---- the daemon */

static uint64_t committed(void)
{
	const uint64_t before = tx.committed;
	assert_int_equal(path_tx_load(&tx), 0);
	return tx.committed - before;
}

static void produce(uint32_t n)
{
	path_rx_publish(&rx, rx.produced + n);
}

static int start(void **state)
{
	int ends[2], charge = 0;
	(void)state;
	assert_true(pre_ready());
	fence = map_page(PROT_NONE);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	fd = ends[0];
	daemon_end = ends[1];
	assert_int_equal(send(fd, "", 1, 0), 1); /* the kept byte */
	assert_int_equal(ioctl(fd, SIOCOUTQ, &charge), 0);
	granted.least_charge = (uint32_t)charge;
	memfd = memfd_create("changing", MFD_CLOEXEC);
	assert_int_equal(ftruncate(memfd, SPAN), 0);
	memory = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	assert_true(memory != MAP_FAILED);
	path_rx_open(&rx, (struct path_page *)memory, 0, 0);
	path_tx_open(&tx, (struct path_page *)memory, RING, 0, 0);
	assert_int_equal(pre_path_adopt(fd, memfd, &granted), 0);
	alarm(60); /* for calls that loop for ever */
	return 0;
}

static int stop(void **state)
{
	(void)state;
	alarm(0);
	close(fd);
	close(daemon_end);
	close(memfd);
	munmap(memory, SPAN);
	munmap(fence, 2 * PAGE);
	munmap((uint8_t *)(list + count) - PAGE, 2 * PAGE);
	return 0;
}

/* ---- sending through the memory */

static void keep_sixteen(void)
{
	cut_after(16);
}

static void test_a_cut_list_sends_what_is_left(void **state)
{
	(void)state;
	const size_t left = PAGE + 15 * 100;
	make_list(0, PAGE, 19, 100);
	change_list = keep_sixteen;
	assert_int_equal(writev(fd, list, count), left);
	assert_int_equal(committed(), left);
}

static void keep_nothing(void)
{
	cut_after(0);
}

/* The bytes were copied already, and the last one goes through the pair. Were the list asked for it
 * again, the daemon would sleep on. */
static void test_a_cut_list_wakes_the_daemon(void **state)
{
	(void)state;
	uint8_t got[2];
	make_list(0, PAGE, 2, 100);
	memset(plain, 'x', sizeof(plain));
	change_list = keep_nothing;
	assert_true(path_tx_stop_polling(&tx));
	assert_int_equal(writev(fd, list, count), PAGE + 200);
	assert_int_equal(committed(), PAGE + 200 - 1);
	assert_int_equal(recv(daemon_end, got, 2, MSG_DONTWAIT), 2);
	assert_int_equal(got[1], 'x');
}

/* ---- receiving from the memory */

static void keep_two(void)
{
	cut_after(2);
}

static void test_a_cut_list_receives_what_fits(void **state)
{
	(void)state;
	memory[PATH_PAGE_SIZE + 60] = 'y';
	produce(1000);
	make_list(10, 50, 3, 100);
	change_list = keep_two;
	assert_int_equal(readv(fd, list, count), 60);
	assert_int_equal(read(fd, plain, 1), 1); /* none is lost */
	assert_int_equal(plain[0], 'y');
}

/* Another reader is faster, so the call looks again, and then nothing fits any more. What a list
 * without bytes gets, only the kernel can say. */
static void keep_nothing_and_take(void)
{
	cut_after(0);
	path_reader_take((struct path_page *)memory, 0, 10);
}

static void test_an_emptied_list_takes_nothing(void **state)
{
	(void)state;
	produce(1000);
	make_list(0, 50, 3, 100);
	change_list = keep_nothing_and_take;
	struct msghdr msg = { .msg_iov = list, .msg_iovlen = (size_t)count };
	assert_int_equal(recvmsg(fd, &msg, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(path_rx_load(&rx), 0);
	assert_int_equal(rx.taken, 10);
}

/* The list becomes longer, and the daemon forwards a head into the pair: the call looks again, and
 * the kernel gives it more than the list had room for at first. */
static void forward_more(void)
{
	list[1].iov_len = 400;
	path_rx_forward_begin(&rx, 300);
	path_rx_forward_end(&rx, send(daemon_end, memory, 300, MSG_DONTWAIT) == 300 ? 300 : 0);
}

static void test_a_longer_list_ends_with_the_head(void **state)
{
	(void)state;
	produce(1000);
	make_list(0, 100, 1, 0);
	change_list = forward_more;
	assert_int_equal(readv(fd, list, count), 300);
	assert_int_equal(path_rx_load(&rx), 0);
	assert_int_equal(rx.taken, 300);
}

/* ---- long sends without the memory */

static ssize_t (*kernels_writev)(int fd, const struct iovec *iov, int count);

static ssize_t cut_and_writev(int to, const struct iovec *iov, int pieces)
{
	ssize_t n = kernels_writev(to, iov, pieces);
	cut_after(1);
	errno = ECONNRESET; /* of an earlier call, as it were */
	return n;
}

static void name_pair_end(void)
{
	struct ipc_pair_name name = { .id = (uint64_t)getpid() };
	struct sockaddr_un addr;
	name.local.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 1 };
	name.peer.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = 2 };
	int len = ipc_pair_name_encode(&name, &addr, sizeof(addr));
	assert_true(len > 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, (socklen_t)len), 0);
}

static void test_a_cut_list_ends_a_long_send(void **state)
{
	(void)state;
	static uint8_t first[SEND_ALL_PART];
	ssize_t n = -1;
	make_list(1, 0, 1, PAGE);
	list[0] = (struct iovec){ first, sizeof(first) };
	name_pair_end();
	kernels_writev = pre_next.writev;
	pre_next.writev = cut_and_writev;
	bool done = send_all(fd, SEND_ALL_WRITEV, list, count, 0, &n);
	pre_next.writev = kernels_writev;
	assert_true(done);
	assert_int_equal(n, sizeof(first));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_cut_list_sends_what_is_left),
		TEST(test_a_cut_list_wakes_the_daemon),
		TEST(test_a_cut_list_receives_what_fits),
		TEST(test_an_emptied_list_takes_nothing),
		TEST(test_a_longer_list_ends_with_the_head),
		TEST(test_a_cut_list_ends_a_long_send),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
