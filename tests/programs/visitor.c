/* SPDX-License-Identifier: MIT */
/*
 * An ordinary program that connects again and again, whatever becomes of its connections. The peer
 * need not be a real server.
 *
 *   visitor ADDRESS PORT
 *
 * Ends when nobody listens there any more: exit status 0; 2: usage.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MS 100
#define REFUSALS  20 /* refused connections in a row until it ends: the server may be starting */

static void talk(int fd)
{
	char buf[256];
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	if (send(fd, "hello", 5, MSG_NOSIGNAL) == 5 && poll(&wait, 1, ANSWER_MS) > 0)
		(void)!recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	if (argc != 3 || inet_pton(AF_INET, argv[1], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((uint16_t)atoi(argv[2]));
	for (int refusals = 0; refusals < REFUSALS;) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
			refusals = 0;
			talk(fd);
		} else {
			refusals = errno == ECONNREFUSED ? refusals + 1 : 0;
		}
		close(fd);
	}
	return 0;
}
