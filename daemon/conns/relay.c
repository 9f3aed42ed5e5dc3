/* SPDX-License-Identifier: MIT */
#include "daemon/conns/relay.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define TURN (256 * 1024) /* most bytes that one direction moves in one turn */

/* Bytes on their way from one system call to the next. What the other side does not take is copied
 * to a relay_rest. */
static uint8_t passing[128 * 1024];

void relay_start(struct relay *relay, struct pair *pair, int tcp)
{
	const int on = 1, least = 1;
	*relay = (struct relay){ .pair = pair, .tcp = tcp, .tx_ready = true, .rx_ready = true };
	setsockopt(tcp, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)); /* cannot fail */
	/* The program's SO_RCVLOWAT holds for its pair end, not for the daemon. */
	setsockopt(tcp, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)); /* cannot fail */
}

void relay_stop(struct relay *relay)
{
	free(relay->tx_rest.data);
	free(relay->rx_rest.data);
	relay->tx_rest = relay->rx_rest = (struct relay_rest){ 0 };
}

void relay_note_pair(struct relay *relay, uint32_t events)
{
	if (events & ~(uint32_t)EPOLLOUT)
		relay->tx_ready = true;
	if (events & EPOLLOUT)
		relay->rx_full = false;
	if (events & (EPOLLHUP | EPOLLERR))
		relay->closed = true;
	if (events & EPOLLERR)
		pair_closed(relay->pair);
}

void relay_note_tcp(struct relay *relay, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		relay->rx_ready = true;
	if (events & EPOLLPRI)
		relay->urgent = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		relay->tx_full = false;
	/* After end of file no recv() will report the error. */
	if (events & EPOLLERR && relay->rx_ended)
		relay->tcp_failed = true;
}

bool relay_untouched(const struct relay *relay)
{
	return relay->tx_bytes == 0 && relay->rx_bytes == 0 && !relay->closed && !relay->tx_ended &&
	       !relay->rx_ended && !relay->deaf && pair_pending(relay->pair) == 0;
}

bool relay_reset_waits(const struct relay *relay)
{
	return relay->tcp_failed && relay->rx_full;
}

bool relay_writer_waits(const struct relay *relay)
{
	return relay_reset_waits(relay) && pair_pending(relay->pair) > 0;
}

/* ---- what was not taken at once */

static int keep_rest(struct relay_rest *rest, const uint8_t *data, size_t len, bool urgent)
{
	rest->data = malloc(len);
	if (!rest->data)
		return -ENOMEM;
	memcpy(rest->data, data, len);
	rest->at = 0;
	rest->len = len;
	rest->urgent = urgent;
	return 0;
}

static void took(struct relay_rest *rest, size_t n)
{
	rest->at += n;
	if (rest->at < rest->len)
		return;
	free(rest->data);
	*rest = (struct relay_rest){ 0 };
}

/* The kernel tells it once, and EPIPE from then on. @return -error */
static int note_error(struct relay *relay, int error)
{
	if (!relay->error && error != EPIPE)
		relay->error = error;
	return -error;
}

/* ---- program to TCP */

/* @return bytes that TCP took; 0: none, `tx_full` is set; a negative errno: TCP is broken */
static ssize_t tcp_send(struct relay *relay, const uint8_t *data, size_t len, bool urgent)
{
	ssize_t n;
	do
		n = send(relay->tcp, data, len,
			 MSG_DONTWAIT | MSG_NOSIGNAL | (urgent ? MSG_OOB : 0));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		return note_error(relay, errno);
	if (n < (ssize_t)len)
		relay->tx_full = true;
	return n < 0 ? 0 : n;
}

/* @return false: TCP is broken */
static bool send_rest(struct relay *relay)
{
	struct relay_rest *rest = &relay->tx_rest;
	ssize_t n = tcp_send(relay, rest->data + rest->at, rest->len - rest->at, rest->urgent);
	took(rest, n < 0 ? rest->len - rest->at : (size_t)n);
	return n >= 0;
}

/* Nothing can be sent any more. Bytes that TCP received before still go to the program. */
static enum relay_result tcp_broken(struct relay *relay)
{
	relay->tcp_failed = true;
	relay->tx_ready = false;
	relay->rx_ready = !relay->rx_ended;
	return RELAY_MORE;
}

/* Would TCP send a reset if the program closed a TCP socket now? */
static bool left_unread(const struct relay *relay)
{
	return relay->pair->unread || relay->linger_reset || relay->rx_rest.data;
}

static enum relay_result end_tx(struct relay *relay)
{
	relay->tx_ready = false;
	/* The program may have closed, and the event that says so may not have come yet. */
	relay->closed = relay->closed || pair_closed(relay->pair);
	/* If the program had shut writing down before it closed, the peer gets FIN, even if the
	 * close() becomes a reset. */
	if (!relay->tx_ended && (!relay->closed || relay->pair->shut)) {
		relay->tx_ended = true;
		shutdown(relay->tcp, SHUT_WR);
	}
	if (relay->closed)
		return left_unread(relay) ? RELAY_ABORTED : RELAY_FINISHED;
	return relay->rx_ended ? RELAY_FINISHED : RELAY_WAIT;
}

static enum relay_result relay_tx(struct relay *relay)
{
	size_t moved = 0;
	if (relay->tcp_failed) /* a program whose bytes were dropped would go on writing */
		return RELAY_WAIT;
	while (!relay->tx_full && (relay->tx_rest.data || relay->tx_ready)) {
		if (relay->tx_rest.data) {
			if (!send_rest(relay))
				return tcp_broken(relay);
			continue;
		}
		if (moved >= TURN)
			return RELAY_MORE;
		struct iovec iov = { passing, sizeof(passing) };
		ssize_t got = pair_read(relay->pair, &iov, 1);
		if (got == -EAGAIN) {
			relay->tx_ready = false;
			break;
		}
		if (got <= 0)
			return end_tx(relay);
		moved += (size_t)got;
		relay->tx_bytes += (size_t)got;
		bool urgent = relay->pair->urgent;
		ssize_t put = tcp_send(relay, passing, (size_t)got, urgent);
		pair_settle(relay->pair);
		if (put < 0)
			return tcp_broken(relay);
		if (put < got &&
		    keep_rest(&relay->tx_rest, passing + put, (size_t)(got - put), urgent) < 0)
			return RELAY_ABORTED; /* bytes are lost: the stream must not just end */
	}
	return RELAY_WAIT;
}

/* ---- TCP to program */

/* @return bytes that the pair took; 0: none, `rx_full` is set; -ENOBUFS: try again soon; -EPIPE:
 *         the program has closed */
static ssize_t pair_send(struct relay *relay, const uint8_t *data, size_t len, bool urgent)
{
	struct iovec iov = { (uint8_t *)data, len };
	if (relay->deaf)
		return (ssize_t)len;
	ssize_t n =
		urgent ? pair_write_urgent(relay->pair, data) : pair_write(relay->pair, &iov, 1);
	if (n == -EAGAIN || (n >= 0 && n < (ssize_t)len))
		relay->rx_full = true;
	if (n == -EAGAIN)
		return 0;
	if (n != -EPIPE)
		return n;
	if (pair_closed(relay->pair)) {
		relay->closed = relay->pair->unread = true;
		return -EPIPE;
	}
	relay->deaf = true; /* shutdown(RD): TCP would accept and drop what arrives */
	return (ssize_t)len;
}

static enum relay_result end_rx(struct relay *relay, bool reset)
{
	relay->rx_ready = false;
	if (reset)
		return RELAY_RESET;
	relay->rx_ended = true;
	pair_shutdown(relay->pair);
	return relay->tx_ended ? RELAY_FINISHED : RELAY_WAIT;
}

/* Has the pair room? If an urgent byte waits, the pair is enlarged, so that the program hears of
 * it. */
static bool has_room(struct relay *relay)
{
	if (relay->rx_full && relay->urgent && pair_make_way(relay->pair))
		relay->rx_full = false;
	return !relay->rx_full;
}

/*
 * Receive the bytes before an urgent byte, or the urgent byte alone. recv() stops before an urgent
 * byte only if it has read something before. So SIOCATMARK is asked first whether the next byte is
 * the urgent one. The answer is right once that byte has arrived, which poll() has told.
 * @return as recv(2)
 */
static ssize_t tcp_receive(struct relay *relay, uint8_t *buf, size_t len, bool *ret_urgent)
{
	struct pollfd pfd = { .fd = relay->tcp, .events = POLLIN | POLLPRI | POLLRDHUP };
	int at_mark = 0;
	ssize_t n;
	*ret_urgent = false;
	if (poll(&pfd, 1, 0) == 0) {
		errno = EAGAIN;
		return -1;
	}
	relay->urgent = pfd.revents & POLLPRI;
	if (relay->urgent && ioctl(relay->tcp, SIOCATMARK, &at_mark) == 0 && at_mark) {
		*ret_urgent = true;
		len = 1;
	}
	do
		n = recv(relay->tcp, buf, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

static enum relay_result relay_rx(struct relay *relay)
{
	size_t moved = 0;
	while (has_room(relay) && (relay->rx_rest.data || relay->rx_ready)) {
		struct relay_rest *rest = &relay->rx_rest;
		bool urgent;
		if (rest->data) {
			ssize_t n = pair_send(relay, rest->data + rest->at, rest->len - rest->at,
					      rest->urgent);
			if (n < 0)
				return n == -EPIPE ? RELAY_ABORTED : RELAY_MORE;
			took(rest, (size_t)n);
			continue;
		}
		if (moved >= TURN)
			return RELAY_MORE;
		ssize_t got = tcp_receive(relay, passing, sizeof(passing), &urgent);
		if (got < 0 && errno == EAGAIN) {
			relay->rx_ready = false;
			break;
		}
		if (got < 0)
			note_error(relay, errno);
		if (got <= 0)
			return end_rx(relay, got < 0 || relay->tcp_failed);
		moved += (size_t)got;
		relay->rx_bytes += (size_t)got;
		ssize_t put = pair_send(relay, passing, (size_t)got, urgent);
		if (put == -EPIPE)
			return RELAY_ABORTED;
		if (put < 0)
			put = 0;
		if (put < got && keep_rest(rest, passing + put, (size_t)(got - put), urgent) < 0)
			return RELAY_ABORTED;
	}
	if (!relay->urgent && !relay->rx_rest.urgent)
		pair_end_way(relay->pair);
	return RELAY_WAIT;
}

uint64_t relay_sent(const struct relay *relay)
{
	int queued = 0;
	if (ioctl(relay->tcp, SIOCOUTQ, &queued) < 0)
		queued = 0;
	return relay->tx_bytes - (relay->tx_rest.len - relay->tx_rest.at) - (uint64_t)queued;
}

/* Have bytes come for a program that has closed? TCP answers such bytes with a reset. */
static bool peer_writes(const struct relay *relay)
{
	int waiting;
	return relay->closed && ioctl(relay->tcp, SIOCINQ, &waiting) == 0 && waiting > 0;
}

/* The program has closed with data unread: TCP would reset at once. But TCP would have sent, when
 * the program wrote them, the bytes that it takes now. So these are sent before the reset. */
static enum relay_result close_hard(struct relay *relay)
{
	relay->tx_ready = true;
	return relay_tx(relay) == RELAY_MORE ? RELAY_MORE : RELAY_ABORTED;
}

enum relay_result relay_run(struct relay *relay)
{
	if (relay->closed && left_unread(relay))
		return close_hard(relay);
	if (relay->tcp_failed && (relay->closed || relay->rx_ended))
		return RELAY_RESET;
	enum relay_result rx = relay->closed || relay->rx_ended ? RELAY_WAIT : relay_rx(relay);
	/* The program may close while bytes are passed to it, before an event tells so. */
	if (rx == RELAY_ABORTED && relay->closed)
		return close_hard(relay);
	if (rx != RELAY_WAIT && rx != RELAY_MORE)
		return rx;
	enum relay_result tx = relay_tx(relay);
	/* Not all that the program wrote is sent. The peer's program may wait until its bytes are
	 * taken before it takes ours. */
	if (tx == RELAY_WAIT && peer_writes(relay))
		return RELAY_ABORTED;
	return tx == RELAY_WAIT ? rx : tx;
}
