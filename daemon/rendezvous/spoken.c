/* SPDX-License-Identifier: MIT */
#include "daemon/rendezvous/spoken.h"

#include <errno.h>
#include <linux/bpf.h> /* BPF_TCP_*: the states of TCP_INFO; netinet/tcp.h and linux/tcp.h clash */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static bool read_info(int fd, struct tcp_info *ret_info)
{
	socklen_t len = sizeof(*ret_info);
	memset(ret_info, 0, sizeof(*ret_info));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ret_info, &len) == 0;
}

static uint64_t queue(int fd, unsigned long which)
{
	int bytes = 0;
	return ioctl(fd, which, &bytes) < 0 || bytes < 0 ? 0 : (uint64_t)bytes;
}

uint64_t spoken_peek(int fd)
{
	uint8_t bytes[4096];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	return n < 0 ? 0 : (uint64_t)n;
}

/* Read in this order: bytes that are acknowledged in between make the sum smaller, never larger. */
static uint64_t written(int fd, const struct tcp_info *info)
{
	return info->tcpi_bytes_acked + queue(fd, SIOCOUTQ);
}

/* The same holds for bytes that arrive in between. A FIN counts as received, but not as unread. */
static uint64_t taken(const struct tcp_info *info, uint64_t unread)
{
	unread += info->tcpi_state != BPF_TCP_ESTABLISHED;
	uint64_t received = info->tcpi_bytes_received;
	return received > unread ? received - unread : 0;
}

/* The kernel counts bytes before urgent data as unread, but not those behind. */
static bool has_urgent(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	return poll(&p, 1, 0) > 0 && (p.revents & POLLPRI);
}

void spoken_begin(struct spoken *spoken, int fd)
{
	struct tcp_info info;
	*spoken = (struct spoken){ .fd = fd };
	if (!read_info(fd, &info))
		return;
	spoken->others = info.tcpi_bytes_sent || info.tcpi_notsent_bytes;
	spoken->before = written(fd, &info);
}

void spoken_end(struct spoken *spoken)
{
	free(spoken->told);
	spoken->told = NULL;
}

static int tell(int fd, const struct ipc_spoken *told, socklen_t len)
{
	return setsockopt(fd, IPC_SOL_SMCR, IPC_SO_SPOKEN, told, len) < 0 ? -errno : 0;
}

int spoken_say(struct spoken *spoken, const uint8_t *msg, size_t len)
{
	if (!spoken->told)
		spoken->told = calloc(1, sizeof(*spoken->told));
	if (!spoken->told)
		return -ENOMEM;
	if (len > sizeof(spoken->told->bytes) - spoken->told->length)
		return -ENOBUFS;
	memcpy(spoken->told->bytes + spoken->told->length, msg, len);
	spoken->told->length += (uint32_t)len;
	spoken->said += len;
	/* Other errors: there is no gate, or another daemon's. */
	return tell(spoken->fd, spoken->told, sizeof(*spoken->told)) == -ENOMEM ? -ENOMEM : 0;
}

void spoken_hear(struct spoken *spoken, size_t len)
{
	spoken->heard += len;
}

static bool look_alone(const struct spoken *spoken)
{
	struct tcp_info info;
	if (!read_info(spoken->fd, &info))
		return true;
	if (spoken->others || written(spoken->fd, &info) > spoken->before + spoken->said)
		return false;
	return taken(&info, queue(spoken->fd, SIOCINQ)) <= spoken->heard ||
	       has_urgent(spoken->fd) || taken(&info, spoken_peek(spoken->fd)) <= spoken->heard;
}

/* The kernel reads the state before the counts. A FIN that comes in between is in the counts only,
 * and is no byte that somebody has read: the second look finds both. */
bool spoken_alone(const struct spoken *spoken)
{
	return look_alone(spoken) || look_alone(spoken);
}

void spoken_free_socket(int fd)
{
	const struct ipc_spoken freed = { .length = IPC_SPOKEN_FREED };
	tell(fd, &freed, offsetof(struct ipc_spoken, bytes));
}
