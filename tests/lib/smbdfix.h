/* SPDX-License-Identifier: MIT */
/**
 * @file smbdfix.h
 * For tests of daemon/smbdirect: an owner of one connection that records what the connection does.
 * A test sends it messages as a peer would, or joins two of them.
 */
#ifndef SMCRD_TESTS_SMBDFIX_H
#define SMCRD_TESTS_SMBDFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/smbdirect/transport.h"
#include "proto/smbdirect/smbdirect.h"

#define SMBDFIX_MOST 4096

/** A SEND that the connection has made. */
struct smbdfix_sent {
	uint8_t *bytes;
	size_t len;
	bool has_token;
	uint32_t token;
};

struct smbdfix {
	struct smbd *smbd;
	uint64_t now;

	uint32_t posted_small; /* receives of SMBD_NEGOTIATE_SIZE that are posted */
	uint32_t posted;       /* other receives that are posted */
	uint32_t posted_size;  /* bytes of each of those */
	uint32_t post_room;    /* how many more can be posted */
	struct smbdfix_sent sent[SMBDFIX_MOST];
	size_t num_sent, taken; /* taken: by smbdfix_next() or smbdfix_pump() */
	size_t send_room;       /* how many more can be sent */
	int send_error;         /* if not 0: what the next SEND returns */
	uint32_t own_token;     /* of memory that is registered; 0: none */
	size_t reserved;        /* bytes for a long message */
	size_t reserve_most;    /* and how many there may be; 0: any */

	unsigned int established;
	size_t num_messages;
	uint8_t *message; /* the last one */
	size_t message_len;
	bool message_has_token;
	uint32_t message_token;
	unsigned int ended;
	enum smbd_end end;
	bool end_send_first;
	/** Called for each message, and when it is established, if set. */
	void (*on_message)(struct smbdfix *fix);
	void (*on_established)(struct smbdfix *fix);
};

/** The small sizes of the examples of MS-SMBD chapter 4. */
extern const struct smbd_config smbdfix_config;

/** Make a connection that is not connected yet. */
void smbdfix_new(struct smbdfix *fix, const struct smbd_config *config, enum smbd_role role);
/** Try to make another connection with the operations of `fix`. @return of smbd_new() */
int smbdfix_again(struct smbdfix *fix, enum smbd_role role, struct smbd **ret_smbd);
/** Free it, and check that a connection that has ended told so once. */
void smbdfix_free(struct smbdfix *fix);
/** Make two, connect and join them: both are established. */
void smbdfix_join(struct smbdfix *active, const struct smbd_config *active_config,
		  struct smbdfix *passive, const struct smbd_config *passive_config);
/** Make an established connection of that role, whose peer is the test. The peer has asked for and
 * granted so many credits, has been granted those that it asked for, takes SENDs of 1024 bytes and
 * messages of 128 KiB, and has ours. */
void smbdfix_establish(struct smbdfix *fix, const struct smbd_config *config, enum smbd_role role,
		       uint16_t requested, uint16_t granted);

/** The test sends these bytes: a receive is used. */
void smbdfix_get(struct smbdfix *fix, const void *bytes, size_t len, const uint32_t *token);
/** The test sends a Data Transfer message with `data->length` bytes of a pattern that begins with
 * `first`. */
void smbdfix_get_data(struct smbdfix *fix, const struct smbdirect_data *data, uint8_t first);
/** The next SEND that the test has not seen; fails if there is none. */
const struct smbdfix_sent *smbdfix_next(struct smbdfix *fix);
/** The same, a Data Transfer message. */
struct smbdirect_data smbdfix_next_data(struct smbdfix *fix);
bool smbdfix_is_silent(const struct smbdfix *fix);
/** Deliver messages between two until neither sends any more. @return how many; fails after
 * 100,000 */
size_t smbdfix_pump(struct smbdfix *a, struct smbdfix *b);
/** Send a message of `len` bytes of a pattern. @return of smbd_send() */
int smbdfix_send(struct smbdfix *fix, size_t len, uint8_t first);
/** Is the last message that came of that pattern? */
void smbdfix_expect_message(const struct smbdfix *fix, size_t len, uint8_t first);
struct smbd_view smbdfix_view(const struct smbdfix *fix);
/** The invariant of SMBD-23. */
void smbdfix_check(const struct smbdfix *fix);

#endif
