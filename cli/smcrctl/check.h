/* SPDX-License-Identifier: MIT */
/**
 * @file check.h
 * What the steps of "smcrctl check" share:
 *
 *   check.c          the command line, and the order of the steps
 *   check_before.c   what smcrd would do with such a connection
 *   check_places.c   the addresses and ports that a program would try, and which of them answer
 *   check_attempt.c  a real connection, opened and closed at once
 *   check_path.c     do RoCE packets pass?
 *   check_advice.c   what to do about a reason
 *   check_cm.c       an RDMA connection in place of all that (--cm)
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

struct tool_call;

struct check {
	struct doctor doctor;       /* has the findings of the check, too */
	const char *host;           /* as typed */
	const char *program;        /* path of the program that would connect; NULL: any */
	uint16_t wanted_port;       /* 0: none was given */
	struct addrinfo *addresses; /* of the host; NULL: not known */
	/* The place: address and port that are tried, or were tried last. */
	uint16_t port;
	union check_address peer, local;
	socklen_t len;                     /* of both */
	char peer_text[CHECK_ADDRESS_LEN]; /* without the port */
	char local_text[CHECK_ADDRESS_LEN];
	json_t *judgement; /* of smcrd; NULL: not known, and judgement_error says why */
	char judgement_error[SESSION_ERROR_LEN];
	json_t *groups_before; /* link groups before the connection; NULL: not known */
	/* The outcome. */
	bool smcr;
	uint32_t reason, peer_reason; /* enum smcr_reason; 0: none, or it is not known */
	struct smcr_info info;        /* of the connection */
	json_int_t version, mtu;      /* if `smcr`; 0: not known */
};

/** Can this host use SMC-R at all? Adds findings. */
bool check_before(struct check *check);

/** Ask smcrd what would become of a connection to the place. @return true: SMC-R would be tried */
bool check_judge(struct check *check);

/** Add findings about what check_judge() was told. */
void check_tell_judgement(struct check *check);

/** Find the host's addresses, as a program does by getaddrinfo(). @return false: there are none */
bool check_resolve(struct check *check);

/** Let the place be this address and port. */
void check_set_place(struct check *check, const struct addrinfo *address, uint16_t port);

/**
 * Connect as a program does, to one address after the other until one answers; if no port was
 * given, to one usual port after the other. Sets the place, and adds findings.
 * @return the descriptor of a connection that may become SMC-R; -1: there is none
 */
int check_connect(struct check *check);

/** Connect to the place once more, without a finding. @return a connected descriptor, or a negative
 * errno */
int check_connect_again(struct check *check, enum smcr_policy policy);

/** Add a finding: why there is no connection, or no longer one. @param error  a negative errno */
void check_not_connected(struct check *check, int error);

/** Make a connection, and fill in the outcome. */
void check_attempt(struct check *check);

/**
 * Do RoCE packets pass? If the link was set up for this connection, they have passed. A link that
 * was there before is tested now. Adds a finding, and sets `smcr` to false if they do not pass.
 * @param fd  the connection, which uses SMC-R; nothing is sent on it afterwards
 */
void check_path(struct check *check, int fd);

/**
 * Find a row in a view of smcrd.
 * @param key         which key has the id of the link group
 * @param number_key  which key has the number of the link; it must be the link of `info`. NULL: any
 * @return a new reference; NULL: there is no such row, or smcrd does not answer
 */
json_t *check_row(const struct check *check, const char *method, const char *key, json_int_t group,
		  const char *number_key);

/**
 * What to do about a reason why a connection is plain TCP.
 * @param peer  the peer has declined, and the reason is the peer's
 * @return a sentence; static storage
 */
const char *check_advice(uint32_t reason, bool peer);

/** Does --cm go with the words of the command line? @return false after an error message */
bool check_cm_fits(const struct check *check);

/** The whole check with --cm, and its output. @return whether a connection could be made */
bool check_cm(const struct tool_call *call, struct check *check);

/** Does the reason say that RoCE packets, UDP port 4791, did not pass? */
bool check_is_path(uint32_t reason);

#endif
