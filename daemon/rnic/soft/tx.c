/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/udp.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/rnic/soft/internal.h"

#define TX_MESSAGES  8   /* most batches in a flush */
#define TX_SEGMENTS  384 /* most packets in a flush */
#define TX_IOV       1536
#define TX_ARENA     (512u << 10) /* headers, trailers and copied payload of a flush */
#define TX_MAX_BATCH 65507        /* most UDP payload of one send */
#define TX_CONTROL   (CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(int)))
#define TX_TRAILER   (3 + ROCE_ICRC_LEN)

/* Payload whose pieces have up to this size on the average is copied next to its headers, which is
 * cheaper than so many iovecs. So a batch has fewer iovecs than the kernel allows (1024). */
#define TX_SMALL 256

/* One packet. Its header, payload and trailer are pieces of `iov`; adjacent pieces are one. */
struct segment {
	struct roce_bth bth;
	uint8_t *header;
	uint8_t *trailer; /* padding and ICRC */
	size_t header_len, payload_len;
	struct iovec *payload; /* `pieces` of soft_tx.pieces */
	unsigned int pieces;
};

/* The packets of one send. All are as long as the first; only the last may be shorter. */
struct batch {
	unsigned int first_iov;
	size_t first_segment, segments;
	size_t segment_size;
	size_t bytes;
	bool closed; /* a shorter packet was added, so no other may follow */
};

struct soft_tx {
	const struct soft_qp *qp;
	bool has_ack; /* the last packet of the last batch is an ACKNOWLEDGE */
	struct batch batches[TX_MESSAGES];
	size_t num_batches;
	struct segment segments[TX_SEGMENTS];
	size_t num_segments;
	struct iovec pieces[TX_IOV]; /* of payload, of all segments */
	unsigned int num_pieces;
	struct iovec iov[TX_IOV];
	unsigned int num_iov;
	size_t arena_used;
	struct mmsghdr msgs[TX_MESSAGES];
	_Alignas(struct cmsghdr) uint8_t control[TX_MESSAGES][TX_CONTROL];
	uint8_t arena[TX_ARENA];
};

int soft_tx_new(struct soft_tx **ret_tx)
{
	*ret_tx = calloc(1, sizeof(**ret_tx));
	return *ret_tx ? 0 : -ENOMEM;
}

void soft_tx_free(struct soft_tx *tx)
{
	free(tx);
}

void soft_tx_begin(struct soft_tx *tx, const struct soft_qp *qp)
{
	tx->qp = qp;
	tx->has_ack = false;
	tx->num_batches = 0;
	tx->num_segments = 0;
	tx->num_pieces = 0;
	tx->num_iov = 0;
	tx->arena_used = 0;
}

static size_t packet_len(const struct segment *s)
{
	return s->header_len + s->payload_len + s->bth.pad + ROCE_ICRC_LEN;
}

/* The last batch, if a packet of this length can be added to it, or NULL. */
static struct batch *open_batch(struct soft_tx *tx, size_t len)
{
	const struct soft_device *dev = tx->qp->dev;
	struct batch *last = tx->num_batches ? &tx->batches[tx->num_batches - 1] : NULL;
	if (last && dev->segmentation && !last->closed && len <= last->segment_size &&
	    last->segments < dev->max_segments && last->bytes + len <= TX_MAX_BATCH)
		return last;
	return NULL;
}

/* The batch to which a packet of this length can be added, perhaps a new one, or NULL. */
static struct batch *batch_for(struct soft_tx *tx, size_t len)
{
	struct batch *last = open_batch(tx, len);
	if (last)
		return last;
	if (tx->num_batches == TX_MESSAGES)
		return NULL;
	struct batch *batch = &tx->batches[tx->num_batches++];
	*batch = (struct batch){ .first_iov = tx->num_iov,
				 .first_segment = tx->num_segments,
				 .segment_size = len };
	return batch;
}

/* Append bytes to a batch. Bytes that directly follow the last piece are joined to it. */
static void append(struct soft_tx *tx, const struct batch *batch, void *base, size_t len)
{
	if (len == 0)
		return;
	if (tx->num_iov > batch->first_iov) {
		struct iovec *last = &tx->iov[tx->num_iov - 1];
		if ((uint8_t *)last->iov_base + last->iov_len == base) {
			last->iov_len += len;
			return;
		}
	}
	tx->iov[tx->num_iov++] = (struct iovec){ base, len };
}

static uint8_t *arena_take(struct soft_tx *tx, size_t len)
{
	uint8_t *p = tx->arena + tx->arena_used;
	tx->arena_used += len;
	return p;
}

static void copy_payload(struct soft_tx *tx, struct segment *s)
{
	uint8_t *to = arena_take(tx, s->payload_len);
	size_t at = 0;
	for (unsigned int i = 0; i < s->pieces; i++) {
		memcpy(to + at, s->payload[i].iov_base, s->payload[i].iov_len);
		at += s->payload[i].iov_len;
	}
	s->payload[0] = (struct iovec){ to, s->payload_len };
	s->pieces = 1;
}

/* Add the segment that was just filled in to the batch. */
static void count(struct soft_tx *tx, struct batch *batch, size_t len)
{
	batch->segments++;
	batch->bytes += len;
	batch->closed = len < batch->segment_size;
	tx->num_segments++;
}

bool soft_tx_add(struct soft_tx *tx, const struct roce_bth *bth, const union roce_ext *ext,
		 const struct iovec *payload, unsigned int pieces, bool copy)
{
	if (tx->num_segments == TX_SEGMENTS || tx->num_iov + pieces + 2 > TX_IOV ||
	    tx->num_pieces + pieces + 1 > TX_IOV)
		return false;
	struct segment *s = &tx->segments[tx->num_segments];
	s->bth = *bth;
	s->header_len = ROCE_BTH_LEN + roce_ext_len(bth->opcode);
	s->payload_len = 0;
	s->payload = tx->pieces + tx->num_pieces;
	s->pieces = pieces;
	for (unsigned int i = 0; i < pieces; i++) {
		s->payload[i] = payload[i];
		s->payload_len += payload[i].iov_len;
	}
	s->bth.pad = (uint8_t)(-s->payload_len & 3);
	copy = copy || s->payload_len <= TX_SMALL * (size_t)pieces;
	if (tx->arena_used + s->header_len + TX_TRAILER + (copy ? s->payload_len : 0) > TX_ARENA)
		return false;
	size_t len = packet_len(s);
	struct batch *batch = batch_for(tx, len);
	if (!batch)
		return false;

	s->header = arena_take(tx, s->header_len);
	roce_encode_ext(bth->opcode, ext, s->header + ROCE_BTH_LEN);
	if (copy)
		copy_payload(tx, s);
	s->trailer = arena_take(tx, s->bth.pad + ROCE_ICRC_LEN);
	memset(s->trailer, 0, s->bth.pad);
	append(tx, batch, s->header, s->header_len);
	for (unsigned int i = 0; i < s->pieces; i++)
		append(tx, batch, s->payload[i].iov_base, s->payload[i].iov_len);
	append(tx, batch, s->trailer, s->bth.pad + ROCE_ICRC_LEN);

	tx->num_pieces += s->pieces;
	count(tx, batch, len);
	return true;
}

bool soft_tx_add_ack(struct soft_tx *tx, uint32_t psn, const struct roce_aeth *aeth)
{
	const size_t header_len = ROCE_BTH_LEN + ROCE_AETH_LEN;
	struct batch *batch = open_batch(tx, ROCE_ACK_LEN);
	if (!batch || tx->num_segments == TX_SEGMENTS || tx->num_iov == TX_IOV ||
	    tx->arena_used + ROCE_ACK_LEN > TX_ARENA)
		return false;
	struct segment *s = &tx->segments[tx->num_segments];
	*s = (struct segment){ .bth = { .opcode = ROCE_ACKNOWLEDGE, .psn = psn & ROCE_PSN_MASK },
			       .header = arena_take(tx, header_len),
			       .header_len = header_len };
	roce_encode_aeth(aeth, s->header + ROCE_BTH_LEN);
	s->trailer = arena_take(tx, ROCE_ICRC_LEN);
	append(tx, batch, s->header, ROCE_ACK_LEN);
	count(tx, batch, ROCE_ACK_LEN);
	tx->has_ack = true;
	return true;
}

/* Fill in the BTH and the ICRC. `ip_id`: the kernel gives the packets of one send the IP
 * identifications 0, 1, 2.. */
static void seal(const struct soft_qp *qp, struct segment *s, uint16_t ip_id)
{
	s->bth.pkey = ROCE_PKEY_DEFAULT;
	s->bth.migrated = true; /* some hardware handles packets without this bit more slowly */
	s->bth.dest_qp = qp->peer_qpn;
	roce_encode_bth(&s->bth, s->header);
	uint32_t crc = roce_icrc_start(qp->dev->tables, &qp->flow, packet_len(s), ip_id, s->header);
	crc = roce_icrc_update(crc, s->header + ROCE_BTH_LEN, s->header_len - ROCE_BTH_LEN);
	for (unsigned int i = 0; i < s->pieces; i++)
		crc = roce_icrc_update(crc, s->payload[i].iov_base, s->payload[i].iov_len);
	crc = roce_icrc_update(crc, s->trailer, s->bth.pad);
	roce_icrc_put(crc, s->trailer + s->bth.pad);
}

static void add_control(struct msghdr *msg, int level, int type, const void *value, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), value, len);
	msg->msg_controllen += CMSG_SPACE(len);
}

static void prepare(struct soft_tx *tx, size_t index)
{
	struct batch *batch = &tx->batches[index];
	struct segment *first = &tx->segments[batch->first_segment];
	unsigned int end_iov =
		index + 1 < tx->num_batches ? tx->batches[index + 1].first_iov : tx->num_iov;
	/* One ACK for a flush is enough to keep the window moving. */
	if (index + 1 == tx->num_batches && !roce_is_answer(first->bth.opcode))
		first[batch->segments - 1 - tx->has_ack].bth.ack_req = true;
	for (size_t i = 0; i < batch->segments; i++)
		seal(tx->qp, &first[i], (uint16_t)i);

	struct msghdr *msg = &tx->msgs[index].msg_hdr;
	*msg = (struct msghdr){ .msg_name = (void *)&tx->qp->peer,
				.msg_namelen = sizeof(tx->qp->peer),
				.msg_iov = &tx->iov[batch->first_iov],
				.msg_iovlen = end_iov - batch->first_iov };
	msg->msg_control = tx->control[index];
	if (batch->segments > 1) {
		uint16_t size = (uint16_t)batch->segment_size;
		add_control(msg, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
	}
	/* Ask for marks only if the peer reports them: a router marks such packets instead of
	 * dropping them, and unreported marks would look like a free path. */
	if (tx->qp->peer_is_soft) {
		int tos = IPTOS_ECN_ECT0;
		add_control(msg, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
	}
}

/* The kernel refused a send. @return 0: the batch counts as lost on the way; else the result of
 * soft_tx_flush() */
static int refused(struct soft_device *dev, struct soft_endpoint *ep, const struct batch *batch,
		   int error)
{
	bool segmented = batch->segments > 1;
	switch (error) {
	case EAGAIN: soft_endpoint_block(ep); return -EAGAIN;
	case EINVAL:
		/* Kernels before 6.9 accept at most 64 segments. */
		if (!segmented || dev->max_segments <= 64)
			return 0;
		dev->max_segments = 64;
		return -ERESTART;
	case EIO: /* no checksum offload on the interface */
	case EMSGSIZE:
		if (!segmented)
			return 0;
		dev->segmentation = false;
		return -ERESTART;
	default: return 0;
	}
}

/* Prepare batches from `first` on, at least one, and only as many as stay in the processor's cache
 * until the kernel copies them. @return index of the first batch that is not prepared */
static size_t prepare_some(struct soft_tx *tx, size_t first)
{
	size_t i = first, bytes = 0;
	do {
		prepare(tx, i);
		bytes += tx->batches[i].bytes;
		i++;
	} while (i < tx->num_batches && bytes + tx->batches[i].bytes <= TX_MAX_BATCH);
	return i;
}

int soft_tx_flush(struct soft_tx *tx, struct soft_endpoint *ep, size_t *ret_packets,
		  bool *ret_acked)
{
	struct soft_device *dev = ep->dev;
	size_t done = 0;
	int r = 0;
	*ret_packets = 0;
	while (done < tx->num_batches && r == 0) {
		size_t sealed = prepare_some(tx, done);
		int n = sendmmsg(ep->fd, tx->msgs + done, (unsigned int)(sealed - done), 0);
		if (n <= 0) {
			r = refused(dev, ep, &tx->batches[done], errno);
			n = r == 0; /* this batch counts as lost: go on with the next */
		}
		for (; n > 0; n--, done++) {
			dev->stats.tx_packets += tx->batches[done].segments;
			dev->stats.tx_bytes += tx->batches[done].bytes;
			*ret_packets += tx->batches[done].segments;
		}
	}
	*ret_acked = tx->has_ack && done == tx->num_batches;
	*ret_packets -= *ret_acked;
	return r;
}

/* Send one packet that has no payload. @return 0 or -EAGAIN */
static int send_alone(const struct soft_qp *qp, uint8_t *buf, size_t header_len)
{
	struct soft_device *dev = qp->dev;
	size_t len = header_len + ROCE_ICRC_LEN;
	uint32_t crc = roce_icrc_start(dev->tables, &qp->flow, len, 0, buf);
	crc = roce_icrc_update(crc, buf + ROCE_BTH_LEN, header_len - ROCE_BTH_LEN);
	roce_icrc_put(crc, buf + header_len);
	if (sendto(qp->ep->fd, buf, len, 0, (const struct sockaddr *)&qp->peer, sizeof(qp->peer)) <
		    0 &&
	    errno == EAGAIN) {
		soft_endpoint_block(qp->ep);
		return -EAGAIN;
	}
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += len;
	return 0;
}

void soft_tx_congestion(const struct soft_qp *qp)
{
	uint8_t buf[ROCE_CNP_LEN] = { 0 };
	struct roce_bth bth = { .opcode = ROCE_CONGESTION,
				.migrated = true,
				.pkey = ROCE_PKEY_DEFAULT,
				.becn = true,
				.dest_qp = qp->peer_qpn };
	roce_encode_bth(&bth, buf);
	if (!send_alone(qp, buf, ROCE_BTH_LEN + ROCE_CNP_RESERVED))
		qp->dev->stats.cnps_sent++;
}

int soft_tx_ack(const struct soft_qp *qp, uint32_t psn, const struct roce_aeth *aeth)
{
	uint8_t buf[ROCE_ACK_LEN];
	struct roce_bth bth = { .opcode = ROCE_ACKNOWLEDGE,
				.migrated = true,
				.pkey = ROCE_PKEY_DEFAULT,
				.dest_qp = qp->peer_qpn,
				.psn = psn & ROCE_PSN_MASK };
	roce_encode_bth(&bth, buf);
	roce_encode_aeth(aeth, buf + ROCE_BTH_LEN);
	return send_alone(qp, buf, ROCE_BTH_LEN + ROCE_AETH_LEN);
}
