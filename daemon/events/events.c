/* SPDX-License-Identifier: MIT */
#include "daemon/events/events.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "daemon/cm/cm.h"
#include "daemon/host/log.h"
#include "daemon/host/words.h"
#include "daemon/smbgate/gate.h"

#define MINUTE_US  60000000
#define TOLD_PEERS 128

/** How many lines the log got about a peer, in the minute that began at `since`. */
struct told_lately {
	const struct share *share;
	struct smcr_addr peer;
	uint64_t since_us;
	unsigned int lines;
	unsigned int left_out; /* events since the last line */
};

struct events {
	uint64_t last_id; /* 0: there was none */
	size_t num;
	struct event_record *records; /* oldest first */
	struct told_lately lately[TOLD_PEERS + 1];
	struct told_lately lately_links, lately_conns; /* for all peers together */
	void (*notify)(void *ctx);
	void *notify_ctx;
};

/* MESSAGE_ID: journalctl finds all events of a kind by it, whatever their words. An id never
 * changes. */
static const struct kind {
	const char *name, *message_id;
} kinds[] = {
	[EVENT_GROUP_UP] = { "group-up", "e5aabb5b8fe3481e88a565f3834f7cc5" },
	[EVENT_GROUP_DOWN] = { "group-down", "c44b4393bfc24054984dcad4d02e6a59" },
	[EVENT_LINK_UP] = { "link-up", "ae33add67e524946910ffb98e0b28702" },
	[EVENT_LINK_FAILED] = { "link-failed", "bcf5bf1a9be44662b0733b81d5aa663a" },
	[EVENT_LINK_DELETED] = { "link-deleted", "2480487d9ee84a359dfaca6d0a7aa016" },
	[EVENT_LINK_REFUSED] = { "link-refused", "4a3ece14aa2a450eb1e2c9c2eb95164f" },
	[EVENT_COMMAND] = { "command", "ebbd6c518ae447b388f62d26ba33f8d4" },
	[EVENT_FALLBACK] = { "fallback", "965a559fc476402e95bd37c10d4deee2" },
	[EVENT_RESET] = { "reset", "cea1afda737d43599b17258a834d160d" },
	[EVENT_RNIC_UP] = { "rnic-up", "87914d1c165a4f00b9b98665d4413c62" },
	[EVENT_RNIC_DOWN] = { "rnic-down", "66b410de164b4869b25d32495f5c0571" },
	[EVENT_USER_REFUSED] = { "user-refused", "7c1f0b6d2e9a4d58a3b47c905e16f2d8" },
	[EVENT_CM_UP] = { "cm-up", "c68a06a4a8884ab3b9062ed537f1e548" },
	[EVENT_CM_DOWN] = { "cm-down", "bbc662d65e9445b6a16e8814c016e2e3" },
	[EVENT_CM_REFUSED] = { "cm-refused", "e58e9045aca941619f70b74215629bef" },
	[EVENT_SMBDIRECT_UP] = { "smbdirect-up", "1b0c3f6ad2c14f6c8f53a0b9d1a64e27" },
	[EVENT_SMBDIRECT_DOWN] = { "smbdirect-down", "5d8e7a90b3f4463fa7d0c92b6e18f054" },
	[EVENT_SMBDIRECT_REFUSED] = { "smbdirect-refused", "e2a94c7715d04b0db86f3d5ac1976be8" },
};
_Static_assert(sizeof(kinds) / sizeof(kinds[0]) == NUM_EVENT_KINDS, "one has no name");

const char *event_kind_name(enum event_kind kind)
{
	return kinds[kind].name;
}

const char *event_kind_id(enum event_kind kind)
{
	return kinds[kind].message_id;
}

int events_new(struct events **ret_events)
{
	*ret_events = calloc(1, sizeof(**ret_events));
	return *ret_events ? 0 : -ENOMEM;
}

static void forget(struct events *events, struct event_record *event)
{
	DL_DELETE(events->records, event);
	events->num--;
	free(event);
}

void events_free(struct events *events)
{
	if (!events)
		return;
	while (events->records)
		forget(events, events->records);
	free(events);
}

void events_notify(struct events *events, void (*fn)(void *ctx), void *ctx)
{
	events->notify = fn;
	events->notify_ctx = ctx;
}

/* ---- adding ---- */

static uint64_t time_of(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void peer_name(const struct smcr_addr *peer, char ret_name[INET6_ADDRSTRLEN])
{
	if (!peer->family || !inet_ntop(peer->family, peer->ip, ret_name, INET6_ADDRSTRLEN))
		ret_name[0] = '\0';
}

/* The contents of the sentence as fields, for programs that read the journal. */
static void write_log(const struct event_record *event, int priority)
{
	char peer[INET6_ADDRSTRLEN], group[12], link[4], connections[12];
	const struct log_field fields[] = {
		{ "MESSAGE_ID", kinds[event->kind].message_id },
		{ "SMCRD_EVENT", kinds[event->kind].name },
		{ "PEER", peer },
		{ "LINK_GROUP", group },
		{ "LINK", link },
		{ "RNIC", event->rnic },
		{ "CONNECTIONS", connections },
		{ "PROGRAM", event->program },
		{ "REASON", event->reason ? smcr_reason_name(event->reason) : "" },
		{ "PEER_REASON", event->peer_reason ? smcr_reason_name(event->peer_reason) : "" },
	};
	peer_name(&event->peer, peer);
	snprintf(group, sizeof(group), event->group ? "%u" : "", event->group);
	snprintf(link, sizeof(link), event->link ? "%u" : "", event->link);
	snprintf(connections, sizeof(connections), event->group ? "%u" : "", event->connections);
	log_fields(priority, event->text, fields, sizeof(fields) / sizeof(fields[0]));
}

/* ---- not too many of one peer ---- */

/** A share of the kept events and of the log, which events of other shares cannot take. */
struct share {
	unsigned int kept, kept_of_all;         /* how many are kept of a peer; of all peers */
	unsigned int a_minute, a_minute_of_all; /* lines of the log, the same way */
};

static const struct share of_links = { EVENTS_OF_A_PEER, EVENTS_KEPT, EVENTS_PEER_A_MINUTE,
				       EVENTS_A_MINUTE };
static const struct share of_connections = { EVENTS_OF_PEERS_CONNS, EVENTS_OF_CONNECTIONS,
					     EVENTS_CONNS_PEER_A_MINUTE, EVENTS_CONNS_A_MINUTE };
/* Events about no peer have a share like a peer. */
static const struct share of_commands = { EVENTS_OF_A_PEER, EVENTS_OF_A_PEER, EVENTS_KEPT,
					  EVENTS_KEPT };
static const struct share of_rnics = { EVENTS_OF_A_PEER, EVENTS_OF_A_PEER, EVENTS_KEPT,
				       EVENTS_KEPT };
static const struct share of_users = { EVENTS_OF_PEERS_CONNS, EVENTS_OF_PEERS_CONNS, EVENTS_KEPT,
				       EVENTS_KEPT };

static const struct share *share_of(const struct event_record *event)
{
	switch (event->kind) {
	case EVENT_GROUP_UP:
	case EVENT_GROUP_DOWN:
	case EVENT_LINK_UP:
	case EVENT_LINK_FAILED:
	case EVENT_LINK_DELETED:
	case EVENT_LINK_REFUSED: break;
	case EVENT_COMMAND: return &of_commands;
	case EVENT_FALLBACK:
	case EVENT_RESET:
	case EVENT_CM_UP:
	case EVENT_CM_DOWN:
	case EVENT_CM_REFUSED:
	case EVENT_SMBDIRECT_UP:
	case EVENT_SMBDIRECT_DOWN:
	case EVENT_SMBDIRECT_REFUSED: return &of_connections;
	case EVENT_RNIC_UP:
	case EVENT_RNIC_DOWN: return &of_rnics;
	case EVENT_USER_REFUSED: return &of_users;
	}
	return &of_links;
}

static bool same_peer(const struct event_record *a, const struct event_record *b)
{
	return smcr_same_host(&a->peer, &b->peer);
}

static void keep(struct events *events, struct event_record *event)
{
	const struct share *share = share_of(event);
	struct event_record *other, *oldest = NULL, *oldest_of_all = NULL;
	unsigned int same = 0, all = 0;
	DL_FOREACH (events->records, other) {
		if (share_of(other) != share)
			continue;
		oldest_of_all = oldest_of_all ? oldest_of_all : other;
		all++;
		if (!same_peer(other, event))
			continue;
		oldest = oldest ? oldest : other;
		same++;
	}
	if (same >= share->kept)
		forget(events, oldest);
	else if (all >= share->kept_of_all)
		forget(events, oldest_of_all);
	else if (events->num >= EVENTS_KEPT)
		forget(events, events->records);
	DL_APPEND(events->records, event);
	events->num++;
}

/* ---- not too many lines of the log ---- */

static void begin_minute(struct told_lately *lately, uint64_t now)
{
	if (now - lately->since_us < MINUTE_US)
		return;
	lately->since_us = now;
	lately->lines = 0;
}

static void tell_left_out(unsigned int left_out)
{
	if (left_out)
		log_message(LOG_NOTICE,
			    "%u more event%s like that %s not in this log: smcrctl event", left_out,
			    left_out == 1 ? "" : "s", left_out == 1 ? "is" : "are");
}

/* Where the lines of this share and peer are counted. Peers without a place of their own share the
 * last one. */
static struct told_lately *place_of(struct events *events, const struct event_record *event)
{
	const struct share *share = share_of(event);
	struct told_lately *free_place = NULL;
	for (size_t i = 0; i < TOLD_PEERS; i++) {
		struct told_lately *place = &events->lately[i];
		bool over = event->steady_us - place->since_us >= MINUTE_US;
		if (place->share == share && smcr_same_host(&place->peer, &event->peer))
			return place;
		if (!free_place && (!place->share || over))
			free_place = place;
	}
	if (!free_place)
		return &events->lately[TOLD_PEERS];
	tell_left_out(free_place->left_out);
	*free_place = (struct told_lately){ .share = share, .peer = event->peer };
	return free_place;
}

/* May the event be a line of the log? @param ret_left_out how many events before it, counted in the
 * same place, were not */
static bool may_log(struct events *events, const struct event_record *event,
		    unsigned int *ret_left_out)
{
	const struct share *share = share_of(event);
	struct told_lately *of_peer = place_of(events, event);
	struct told_lately *of_all =
		share == &of_connections ? &events->lately_conns : &events->lately_links;
	begin_minute(of_peer, event->steady_us);
	begin_minute(of_all, event->steady_us);
	if (of_peer->lines >= share->a_minute || of_all->lines >= share->a_minute_of_all) {
		of_peer->left_out++;
		return false;
	}
	of_peer->lines++;
	of_all->lines += event->peer.family != 0;
	*ret_left_out = of_peer->left_out;
	of_peer->left_out = 0;
	return true;
}

/* ---- one line ---- */

/* Make the text one line of valid UTF-8: parts of it are from peers and programs, or were cut. */
static void make_one_line(char *text)
{
	words_mend(text);
	for (; *text; text++)
		if (*text == '\n')
			*text = '?';
}

/* Log the event, and keep it. */
static void add(struct events *events, const struct event_record *filled, int priority)
{
	struct event_record event = *filled;
	unsigned int left_out = 0;
	make_one_line(event.text);
	event.id = ++events->last_id;
	event.time_us = time_of(CLOCK_REALTIME);
	event.steady_us = time_of(CLOCK_MONOTONIC);
	event.logged = may_log(events, &event, &left_out);
	if (event.logged)
		tell_left_out(left_out);
	if (event.logged)
		write_log(&event, priority);
	struct event_record *copy = malloc(sizeof(*copy));
	if (!copy)
		return;
	*copy = event;
	keep(events, copy);
	if (events->notify)
		events->notify(events->notify_ctx);
}

/* ---- of the engine ---- */

static enum event_kind kind_of(enum smcr_event_type type)
{
	switch (type) {
	case SMCR_EVENT_LGR_UP: return EVENT_GROUP_UP;
	case SMCR_EVENT_LINK_UP: return EVENT_LINK_UP;
	case SMCR_EVENT_LINK_FAILED: return EVENT_LINK_FAILED;
	case SMCR_EVENT_LINK_DELETED: return EVENT_LINK_DELETED;
	case SMCR_EVENT_LINK_REFUSED: return EVENT_LINK_REFUSED;
	case SMCR_EVENT_LGR_DOWN: break;
	}
	return EVENT_GROUP_DOWN;
}

static int priority_of(const struct smcr_event *event)
{
	switch (event->type) {
	case SMCR_EVENT_LINK_FAILED:
	case SMCR_EVENT_LINK_REFUSED: return LOG_WARNING;
	case SMCR_EVENT_LGR_DOWN: return event->num_conns ? LOG_WARNING : LOG_INFO;
	case SMCR_EVENT_LGR_UP:
	case SMCR_EVENT_LINK_UP:
	case SMCR_EVENT_LINK_DELETED: break;
	}
	return LOG_INFO;
}

/* "link 3/1 on soft:eth0 with peer 192.0.2.1" */
static int put_subject(char *text, size_t len, const struct event_record *event)
{
	char peer[INET6_ADDRSTRLEN];
	peer_name(&event->peer, peer);
	if (event->link)
		return snprintf(text, len, "link %u/%u on %s with peer %s ", event->group,
				event->link, event->rnic, peer);
	return snprintf(text, len, "link group %u with peer %s ", event->group, peer);
}

/* "; 3 connections were reset" */
static void put_count(char *text, size_t len, const struct event_record *event)
{
	bool one = event->connections == 1;
	const char *moved = one ? " has moved" : "s have moved";
	const char *reset = one ? " was reset" : "s were reset";
	text[0] = '\0';
	if (event->connections)
		snprintf(text, len, "; %u connection%s", event->connections,
			 event->kind == EVENT_GROUP_DOWN ? reset : moved);
}

static void put_sentence(struct event_record *event, const char *why)
{
	size_t len = sizeof(event->text);
	size_t n = (size_t)put_subject(event->text, len, event);
	char count[64];
	if (n >= len)
		return;
	put_count(count, sizeof(count), event);
	switch (event->kind) {
	case EVENT_GROUP_UP:
	case EVENT_LINK_UP: snprintf(event->text + n, len - n, "is up"); break;
	case EVENT_LINK_FAILED:
		snprintf(event->text + n, len - n, "has failed: %s%s", why, count);
		break;
	case EVENT_LINK_DELETED:
		snprintf(event->text + n, len - n, "is deleted: %s%s", why, count);
		break;
	case EVENT_LINK_REFUSED:
		snprintf(event->text + n, len - n, "could not be set up: %s", why);
		break;
	case EVENT_GROUP_DOWN:
		snprintf(event->text + n, len - n, "has ended: %s%s", why, count);
		break;
	case EVENT_COMMAND:
	case EVENT_FALLBACK:
	case EVENT_RESET:
	case EVENT_RNIC_UP:
	case EVENT_RNIC_DOWN:
	case EVENT_USER_REFUSED:
	case EVENT_CM_UP:
	case EVENT_CM_DOWN:
	case EVENT_CM_REFUSED:
	case EVENT_SMBDIRECT_UP:
	case EVENT_SMBDIRECT_DOWN:
	case EVENT_SMBDIRECT_REFUSED: break;
	}
}

void events_engine(void *ctx, const struct smcr_event *told)
{
	struct events *events = ctx;
	struct event_record event = { .kind = kind_of(told->type),
				      .peer = told->peer,
				      .group = told->lgr,
				      .link = told->link,
				      .connections = told->num_conns };
	event.peer.port = 0;
	if (told->device)
		snprintf(event.rnic, sizeof(event.rnic), "%s", told->device);
	put_sentence(&event, told->text);
	add(events, &event, priority_of(told));
}

/* ---- of connections ---- */

struct end_text {
	char text[INET6_ADDRSTRLEN + sizeof("[]:65535")];
};

/* Port 0 is left out: it is not known. */
static struct end_text end_of(const struct smcr_addr *addr)
{
	struct end_text end;
	char ip[INET6_ADDRSTRLEN];
	peer_name(addr, ip);
	if (!addr->port) {
		snprintf(end.text, sizeof(end.text), "%s", ip);
		return end;
	}
	snprintf(end.text, sizeof(end.text), addr->family == AF_INET6 ? "[%s]:%u" : "%s:%u", ip,
		 (unsigned int)addr->port);
	return end;
}

/* "connection 192.0.2.2:40000 to 192.0.2.1:80 (pid 12)". The name of the program is in the journal
 * only: its user and administrators may see it, but everybody may read events. */
static int put_connection(char *text, size_t len, const struct conns_told *told)
{
	char pid[24] = "";
	if (told->pid > 0)
		snprintf(pid, sizeof(pid), " (pid %d)", (int)told->pid);
	return snprintf(text, len, "connection %s %s %s%s ", end_of(told->local).text,
			told->server ? "from" : "to", end_of(told->peer).text, pid);
}

static void put_end(char *text, size_t len, const struct conns_told *told)
{
	char why[EVENTS_TEXT_LEN - 64];
	smcr_reason_sentence(told->reason, told->peer_reason, why, sizeof(why));
	switch (told->kind) {
	case CONNS_FELL_BACK: snprintf(text, len, "fell back to TCP: %s", why); break;
	case CONNS_BROKE:
		snprintf(text, len, "broke before SMC-R was agreed upon: %s",
			 told->why ? told->why : why);
		break;
	case CONNS_WAS_RESET: snprintf(text, len, "was reset: %s", told->why); break;
	case CONNS_REFUSED:
	case CONNS_STAYED_TCP: break;
	}
}

void events_connection(struct events *events, const struct conns_told *told)
{
	struct event_record event = { .kind = EVENT_FALLBACK,
				      .peer = *told->peer,
				      .reason = told->reason,
				      .peer_reason = told->peer_reason };
	if (told->kind == CONNS_STAYED_TCP || told->kind == CONNS_REFUSED)
		return;
	if (told->kind == CONNS_WAS_RESET)
		event.kind = EVENT_RESET;
	event.peer.port = 0;
	snprintf(event.program, sizeof(event.program), "%s", told->program ? told->program : "");
	size_t n = (size_t)put_connection(event.text, sizeof(event.text), told);
	if (n < sizeof(event.text))
		put_end(event.text + n, sizeof(event.text) - n, told);
	add(events, &event, LOG_INFO);
}

/* ---- of RDMA connections ---- */

static struct smcr_addr of_cm(const struct cm_addr *addr)
{
	struct smcr_addr same = { .family = addr->family, .port = addr->port };
	memcpy(same.ip, addr->addr, sizeof(same.ip));
	return same;
}

/* "RDMA connection 192.0.2.1:40000 to 192.0.2.2:445 on soft:eth0 is up" */
static void put_cm(struct event_record *event, const struct cm_told *told)
{
	const struct smcr_addr local = of_cm(&told->local), peer = of_cm(&told->peer);
	const char *way = told->active ? "to" : "from";
	char *text = event->text;
	const size_t len = sizeof(event->text);
	switch (told->what) {
	case CM_TOLD_CONNECTED:
		snprintf(text, len, "RDMA connection %s %s %s on %s is up", end_of(&local).text,
			 way, end_of(&peer).text, told->rnic);
		break;
	case CM_TOLD_ENDED:
		snprintf(text, len, "RDMA connection %s %s %s on %s has ended: %s",
			 end_of(&local).text, way, end_of(&peer).text, told->rnic, told->text);
		break;
	case CM_TOLD_REFUSED:
		snprintf(text, len,
			 "request of %s for an RDMA connection to %s on %s was refused: %s",
			 end_of(&peer).text, end_of(&local).text, told->rnic, told->text);
		break;
	}
}

void events_cm(struct events *events, const struct cm_told *told)
{
	static const enum event_kind kinds_of[] = { [CM_TOLD_CONNECTED] = EVENT_CM_UP,
						    [CM_TOLD_ENDED] = EVENT_CM_DOWN,
						    [CM_TOLD_REFUSED] = EVENT_CM_REFUSED };
	struct event_record event = { .kind = kinds_of[told->what], .peer = of_cm(&told->peer) };
	event.peer.port = 0;
	snprintf(event.rnic, sizeof(event.rnic), "%s", told->rnic);
	put_cm(&event, told);
	add(events, &event, LOG_INFO);
}

/* ---- of SMB Direct ---- */

/* "of client 192.0.2.2:40000, for the server at 127.0.0.1:445", "of program 127.0.0.1:40001, with
 * the server 192.0.2.1:5445" */
static void put_sides(char *text, size_t len, const struct smbgate_told *told)
{
	const struct smcr_addr peer = of_cm(&told->peer);
	const bool known = *told->user;
	if (told->serves)
		snprintf(text, len, "of client %s%s%s", end_of(&peer).text,
			 known ? ", for the server at " : "", told->user);
	else
		snprintf(text, len, "%s%s%swith the server %s", known ? "of program " : "",
			 told->user, known ? ", " : "", end_of(&peer).text);
}

void events_smbdirect(struct events *events, const struct smbgate_told *told)
{
	static const enum event_kind kinds_of[] = {
		[SMBGATE_TOLD_UP] = EVENT_SMBDIRECT_UP,
		[SMBGATE_TOLD_DOWN] = EVENT_SMBDIRECT_DOWN,
		[SMBGATE_TOLD_REFUSED] = EVENT_SMBDIRECT_REFUSED,
	};
	struct event_record event = { .kind = kinds_of[told->what], .peer = of_cm(&told->peer) };
	char sides[200], number[24] = "";
	put_sides(sides, sizeof(sides), told);
	if (told->number)
		snprintf(number, sizeof(number), "%llu ", (unsigned long long)told->number);
	event.peer.port = 0;
	snprintf(event.rnic, sizeof(event.rnic), "%s", told->rnic);
	size_t n = (size_t)snprintf(event.text, sizeof(event.text), "SMB Direct connection %s%s",
				    number, sides);
	char *more = event.text + n;
	const size_t room = sizeof(event.text) - n;
	switch (told->what) {
	case SMBGATE_TOLD_UP: snprintf(more, room, ", on %s is up", told->rnic); break;
	case SMBGATE_TOLD_DOWN:
		snprintf(more, room, ", on %s has ended: %s", told->rnic, told->text);
		break;
	case SMBGATE_TOLD_REFUSED:
		snprintf(more, room, " was not established: %s", told->text);
		break;
	}
	add(events, &event, told->failed ? LOG_WARNING : LOG_INFO);
}

/* ---- of RNICs ---- */

void events_rnic(void *ctx, const char *name, bool up, const char *text)
{
	struct events *events = ctx;
	struct event_record event = { .kind = up ? EVENT_RNIC_UP : EVENT_RNIC_DOWN };
	snprintf(event.rnic, sizeof(event.rnic), "%s", name);
	snprintf(event.text, sizeof(event.text), "rnic %s: %s", name, text);
	add(events, &event, up ? LOG_NOTICE : LOG_WARNING);
}

/* ---- of users ---- */

void events_refused(struct events *events, const char *text)
{
	struct event_record event = { .kind = EVENT_USER_REFUSED };
	snprintf(event.text, sizeof(event.text), "%s", text);
	add(events, &event, LOG_WARNING);
}

/* ---- of operators ---- */

void events_command(struct events *events, const char *command, bool failed, const char *outcome)
{
	struct event_record event = { .kind = EVENT_COMMAND };
	snprintf(event.text, sizeof(event.text), "%s: %s", command, outcome);
	add(events, &event, failed ? LOG_WARNING : LOG_NOTICE);
}

/* ---- looking ---- */

uint64_t events_last_id(const struct events *events)
{
	return events->last_id;
}

void events_walk(const struct events *events, uint64_t after,
		 bool (*fn)(void *arg, const struct event_record *event), void *arg)
{
	const struct event_record *event;
	DL_FOREACH (events->records, event)
		if (event->id > after && !fn(arg, event))
			return;
}
