/* SPDX-License-Identifier: MIT */
/**
 * @file check.h
 * What the steps of "smcrctl check" share:
 *
 *   check.c          the words, and the order of the steps
 *   check_before.c   what smcrd says of such a connection before there is one
 *   check_places.c   the addresses and ports that a program would try, and who answers there
 *   check_attempt.c  a real connection, opened and closed at once
 *   check_path.c     does RoCE pass?
 *   check_advice.c   what to do about a reason
 */
#ifndef SMCRD_SMCRCTL_CHECK_H
#define SMCRD_SMCRCTL_CHECK_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/smcrctl/doctor.h"
#include "cli/smcrctl/session.h"
#include "include/smcr.h"

#define CHECK_ADDRESS_LEN (INET6_ADDRSTRLEN + 16)

union check_address {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

struct check {
	struct doctor doctor;       /* whose findings are this one's too */
	const char *host;           /* as typed */
	const char *program;        /* path of the one that would connect; NULL: any */
	uint16_t wanted_port;       /* 0: none was given */
	struct addrinfo *addresses; /* of the host; NULL: not known */
	/* The place that is tried, or was tried last. */
	uint16_t port;
	union check_address peer, local;
	socklen_t len;                     /* of both */
	char peer_text[CHECK_ADDRESS_LEN]; /* without the port */
	char local_text[CHECK_ADDRESS_LEN];
	json_t *judgement; /* of smcrd; NULL: not known, for this reason: */
	char judgement_error[SESSION_ERROR_LEN];
	json_t *groups_before; /* link groups, when it was not connected yet; NULL: not known */
	/* The outcome. */
	bool smcr;
	uint32_t reason, peer_reason; /* enum smcr_reason; 0: none, or it is not known */
	struct smcr_info info;        /* with `smcr` */
	json_int_t version, mtu;      /* likewise; 0: not known */
};

/** Is the host such that there could be SMC-R at all? */
bool check_before(struct check *check);

/** Asks smcrd what becomes of a connection to the place. @return true: SMC-R would be tried */
bool check_judge(struct check *check);

/** What check_judge() has found, for people. */
void check_tell_judgement(struct check *check);

/** The addresses, as a program gets them by getaddrinfo(). @return false: there are none */
bool check_resolve(struct check *check);

/**
 * Connect as a program does, to one address after the other until one answers; if no port was
 * given, to one usual port after the other. Sets the place, and tells how far it came.
 * @return a connected descriptor, SMC-R may come of it; -1: none is wanted any more
 */
int check_connect(struct check *check);

/** To the place, once more. Tells nothing. @return a connected descriptor, or a negative errno */
int check_connect_again(struct check *check, enum smcr_policy policy);

/** Why there is no connection, or none any more. @param error  a negative errno */
void check_not_connected(struct check *check, int error);

/** Fills in the outcome. */
void check_attempt(struct check *check);

/**
 * Does RoCE pass? A link that was made for the connection has shown that; one that was there before
 * has to show it now. Tells it, and takes `smcr` back if not.
 * @param fd  the connection, which uses SMC-R; nothing is sent on it afterwards
 */
void check_path(struct check *check, int fd);

/**
 * A row of a view of smcrd's.
 * @param key         of the number of the link group
 * @param number_key  of the number of the link, which is that of `info`; NULL: any
 * @return a new reference; NULL: there is none, or smcrd does not answer
 */
json_t *check_row(const struct check *check, const char *method, const char *key, json_int_t group,
		  const char *number_key);

/**
 * What to do about a reason why a connection is plain TCP.
 * @param peer  it is the peer that has declined
 * @return a sentence; static storage
 */
const char *check_advice(uint32_t reason, bool peer);

/** Is it a reason for which RoCE packets, UDP port 4791, did not pass? */
bool check_is_path(uint32_t reason);

#endif
