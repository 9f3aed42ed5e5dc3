/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uthash.h>

#include "cli/smcrctl/capture.h"
#include "cli/smcrctl/frame.h"
#include "cli/smcrctl/pcapng.h"

#define MTU_OF_CODE(code) (128u << (code))
#define COMMENT_LEN       200

/** A link that messages name. */
struct link {
	uint64_t key;
	struct capture_link said;
	uint32_t psn[2]; /* received, sent */
	UT_hash_handle hh;
};

/** An RNIC, and the interface that it is in the file. */
struct rnic {
	bool known;
	uint32_t interface;
	uint64_t packets, lost; /* lost: those that packets in the file tell of */
	uint32_t mad_psn[2];    /* of the connection manager's messages: received, sent */
};

struct capture_file {
	FILE *out;
	struct link *links;
	struct rnic rnics[CAPTURE_RNICS];
	uint32_t num_interfaces;
	uint64_t messages;
	uint64_t begin_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct capture_file *capture_file_new(FILE *out)
{
	struct capture_file *file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->out = out;
	file->begin_ns = now_ns();
	pcapng_begin(out, "smcrctl " SMCRD_VERSION);
	return file;
}

static struct link *find_link(const struct capture_file *file, uint64_t key)
{
	struct link *link;
	HASH_FIND(hh, file->links, &key, sizeof(key), link);
	return link;
}

/* The RNIC becomes an interface with what comes first of it. */
static void add_rnic(struct capture_file *file, struct rnic *rnic, const char *name,
		     const struct capture_end *local)
{
	if (rnic->known)
		return;
	rnic->known = true;
	rnic->interface = file->num_interfaces++;
	pcapng_interface(
		file->out, name,
		"messages as smcrd gives them to the RNIC: no acknowledgements, no retransmissions",
		local->mac);
}

static int add_link(struct capture_file *file, const struct capture_link *said)
{
	struct link *link = find_link(file, said->link);
	if (!link) {
		link = calloc(1, sizeof(*link));
		if (!link)
			return -ENOMEM;
		link->key = said->link;
		HASH_ADD(hh, file->links, key, sizeof(link->key), link);
	}
	link->said = *said;
	add_rnic(file, &file->rnics[said->rnic], said->name, &said->local);
	return 0;
}

static void describe(const struct capture_link *link, const struct capture_message *message,
		     char text[COMMENT_LEN])
{
	snprintf(text, COMMENT_LEN, "link group %u, link %u, peer %s%s%s", link->group,
		 link->number, *link->peer_host ? link->peer_host : "unknown",
		 message->flags & CAPTURE_WRITE && !(message->flags & CAPTURE_SENT)
			 ? "; bytes that the peer has written, as its next message announces"
			 : "",
		 message->flags & CAPTURE_HIDDEN ? "; keys are zero: they are for root only" : "");
}

/** A message for the file, and what is said about it. */
struct entry {
	uint64_t time_ns, lost;
	bool sent;
	const char *comment;
};

static void write_frames(struct capture_file *file, struct rnic *rnic, const struct entry *entry,
			 const struct frame_message *frames)
{
	uint8_t buf[FRAME_MAX];
	const uint32_t count = frame_count(frames);
	for (uint32_t i = 0; i < count; i++) {
		size_t original, len = frame_write(frames, i, buf, &original);
		const struct pcapng_packet packet = {
			.interface = rnic->interface,
			.time_ns = entry->time_ns,
			.outbound = entry->sent,
			.lost = i == 0 ? entry->lost - rnic->lost : 0,
			.comment = entry->comment,
			.data = buf,
			.len = (uint32_t)len,
			.original = (uint32_t)original,
		};
		pcapng_packet(file->out, &packet);
	}
	rnic->packets += count;
	rnic->lost = entry->lost;
	file->messages++;
}

static int add_message(struct capture_file *file, const struct capture_message *message,
		       const uint8_t *data, uint32_t data_len)
{
	struct link *link = find_link(file, message->link);
	if (!link)
		return -EBADMSG;
	const bool sent = message->flags & CAPTURE_SENT;
	const struct capture_link *said = &link->said;
	const struct frame_message frames = {
		.from = sent ? &said->local : &said->peer,
		.to = sent ? &said->peer : &said->local,
		.is_write = message->flags & CAPTURE_WRITE,
		.path_mtu = MTU_OF_CODE(said->path_mtu),
		.psn = link->psn[sent],
		.remote_addr = message->remote_addr,
		.rkey = message->rkey,
		.data = data,
		.data_len = data_len,
		.length = message->length,
	};
	char comment[COMMENT_LEN];
	describe(said, message, comment);
	const struct entry entry = { message->time_ns, message->lost, sent, comment };
	write_frames(file, &file->rnics[said->rnic], &entry, &frames);
	link->psn[sent] += frame_count(&frames);
	return 0;
}

/* Where the peer's port is not known, as of what was sent, frames come from port 4791 as well. */
static void add_mad(struct capture_file *file, const struct capture_mad *mad, const uint8_t *bytes)
{
	struct rnic *rnic = &file->rnics[mad->rnic];
	const bool sent = mad->flags & CAPTURE_SENT;
	const struct frame_message frame = {
		.from = sent ? &mad->local : &mad->peer,
		.to = sent ? &mad->peer : &mad->local,
		.from_port = sent ? 0 : mad->peer_port,
		.is_datagram = true,
		.qkey = IBCM_QKEY,
		.path_mtu = IBCM_MAD_LEN,
		.psn = rnic->mad_psn[sent]++,
		.data = bytes,
		.data_len = IBCM_MAD_LEN,
		.length = IBCM_MAD_LEN,
	};
	const struct entry entry = { mad->time_ns, mad->lost, sent,
				     mad->flags & CAPTURE_HIDDEN
					     ? "connection manager; starting PSNs are zero: they "
					       "are for root only"
					     : "connection manager" };
	add_rnic(file, rnic, mad->name, &mad->local);
	write_frames(file, rnic, &entry, &frame);
}

int capture_file_add(struct capture_file *file, const void *record, size_t len)
{
	struct capture_link link;
	struct capture_message message;
	struct capture_mad mad;
	const uint8_t *data;
	uint32_t data_len;
	if (capture_link_take(record, len, &link))
		return add_link(file, &link);
	if (capture_message_take(record, len, &message, &data, &data_len))
		return add_message(file, &message, data, data_len);
	if (!capture_mad_take(record, len, &mad, &data))
		return -EBADMSG;
	add_mad(file, &mad, data);
	return 0;
}

uint64_t capture_file_messages(const struct capture_file *file)
{
	return file->messages;
}

static void write_statistics(struct capture_file *file, uint32_t interface, uint64_t packets,
			     uint64_t lost, uint64_t end_ns)
{
	const struct pcapng_statistics statistics = { .interface = interface,
						      .begin_ns = file->begin_ns,
						      .end_ns = end_ns,
						      .packets = packets,
						      .lost = lost };
	pcapng_statistics(file->out, &statistics);
}

uint64_t capture_file_end(struct capture_file *file, const struct capture_ring *ring)
{
	const uint64_t end_ns = now_ns();
	struct link *link, *next;
	uint64_t lost = 0, others = 0;
	for (unsigned int i = 0; i < CAPTURE_RNICS; i++) {
		const struct rnic *rnic = &file->rnics[i];
		const uint64_t here = capture_ring_lost(ring, i);
		lost += here;
		if (rnic->known)
			write_statistics(file, rnic->interface, rnic->packets, here, end_ns);
		else
			others += here;
	}
	if (others) { /* nothing was captured, so the names of these RNICs are not known */
		pcapng_interface(file->out, "unknown", "RNICs of which nothing was captured", NULL);
		write_statistics(file, file->num_interfaces, 0, others, end_ns);
	}
	HASH_ITER (hh, file->links, link, next) {
		HASH_DEL(file->links, link);
		free(link);
	}
	free(file);
	return lost;
}
