/* SPDX-License-Identifier: MIT */
/**
 * @file config.h
 * The configuration (smcrd.conf(5) and the command line): its keys, what they mean to the daemon,
 * where each value came from, and what differs between two configurations.
 *
 *   config.c         the table of keys: what each may be, and how it may change
 *   config_files.c   files, parsed by libinih, and every error in them
 *   config_compare.c what a new configuration changes
 *   config_key.h     what these share
 *
 * Different threads may use different configurations.
 */
#ifndef SMCRD_HOST_CONFIG_H
#define SMCRD_HOST_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/policy/rules.h"
#include "daemon/policy/shorts.h"

#define CONFIG_MAX_RNICS      16
#define CONFIG_MAX_SUBNETS    64
#define CONFIG_MAX_VERBS_NAME 53 /* longest name of an RDMA device, without the port */
#define CONFIG_MAX_NOTES      50 /* more are counted only */

/** An IPv4 network whose hosts are assumed to be SMC-R capable where BPF is not permitted. */
struct config_subnet {
	uint32_t addr; /* host byte order, host bits zero */
	uint8_t prefix_len;
};

/** A key of smcrd.conf(5). */
struct config_key {
	const char *name;
	bool list;     /* may be given several times; each time it says one more thing */
	bool ordered;  /* of a list: the order matters */
	bool finds;    /* of a list: when it is empty smcrd uses what it finds */
	bool restart;  /* changes by a restart only, else by a reload too. Not of a list */
	bool looks_up; /* who is named is looked up, which may take long */
	bool by_files; /* what smcrd opens with its own rights: not for members of admin_group */
	const char *instead; /* of a list: the command that changes it at run time; or NULL */
};

enum config_origin {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_COMMAND_LINE,
	CONFIG_FROM_RUN_TIME, /* config_with() */
};

/** A value that holds. Of a list key there is one for each thing said, else exactly one. */
struct config_setting {
	const struct config_key *key;
	char *value; /* the same for the same meaning, however it was written */
	enum config_origin origin;
	char *file; /* CONFIG_FROM_FILE: path and line; else NULL and 0 */
	unsigned int line;
	char *after_restart; /* what the files say now, if it takes a restart; else NULL */
};

enum config_dbus {
	CONFIG_DBUS_NO,
	CONFIG_DBUS_YES,
	CONFIG_DBUS_AUTO, /* if there is a system bus */
};

struct config {
	char *rnics[CONFIG_MAX_RNICS]; /* "soft:IFNAME" or "verbs:DEV[/PORT]"; none = discover */
	size_t num_rnics;
	char *socket_path;
	char *metrics_socket;  /* Unix socket that answers HTTP with metrics; "": none */
	char *metrics_address; /* likewise "ADDRESS:PORT" of TCP */
	char *admin_group;     /* members may change things with smcrctl; "" = root only */
	gid_t admin_gid;       /* its number, if there is one */
	enum config_dbus dbus;
	int log_level; /* LOG_ERR .. LOG_DEBUG */
	struct config_subnet capable_subnets[CONFIG_MAX_SUBNETS];
	size_t num_capable_subnets;
	struct policy_rule *rules; /* which connections may use SMC-R */
	size_t num_rules;
	unsigned int skip_seconds; /* a peer that failed is left to TCP for so long at first */
	struct shorts_config shorts;
	unsigned int
		connect_wait_ms; /* connect() waits this long for the outcome of a rendezvous */
	unsigned int tcp_keepalive_min_seconds; /* on the TCP side of SMC-R connections; 0: none */
	unsigned int busy_poll_us; /* look for more work for this long before sleeping */
	bool shared_memory;        /* programs may map the memory of their connections */
	bool egress_guard; /* users may send neither to UDP port 4791 nor CLC of their own */
	unsigned int max_connections_per_user;
	unsigned int max_sessions_per_user;
	struct smcr_config engine; /* peer_id and host_name are not set here */
	/** The same in words; config_next_setting() has them by key. */
	struct config_setting *settings;
	size_t num_settings;
};

/** Sentences, each about one thing. */
struct config_notes {
	size_t num;                   /* of them; at most CONFIG_MAX_NOTES are kept */
	char *text[CONFIG_MAX_NOTES]; /* NULL: there was no memory for it; see config_note_text() */
};

void config_note(struct config_notes *notes, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void config_notes_free(struct config_notes *notes);
/** The sentence at `i`, below config_notes_kept(). It is the notes' own. */
const char *config_note_text(const struct config_notes *notes, size_t i);
/** How many of them are kept. */
size_t config_notes_kept(const struct config_notes *notes);

/** Where a configuration comes from. Texts are not owned. */
struct config_source {
	const char *path; /* of the main file; NULL: the default, whose absence is no error */
	/* Of the command line, which wins over the files: */
	const char *socket_path;             /* NULL: as configured */
	const char *rnics[CONFIG_MAX_RNICS]; /* replace the configured ones */
	size_t num_rnics;
};

/**
 * Read the main file and then the *.conf files of smcrd.conf.d beside it in alphabetical order;
 * later values replace earlier ones, and the command line all. Looks users and groups up, which may
 * take long.
 * @param ret_errors  every error, "FILE:LINE: KEY: why"; the caller frees them. Zero before
 * @return 0 with everything filled in (config_free() it), or -EINVAL, or why the main file cannot
 *         be opened
 */
int config_load(const struct config_source *source, struct config *ret_config,
		struct config_notes *ret_errors);
void config_free(struct config *config);

/** Every file that config_load() reads, whether it is there or not. */
void config_each_file(const struct config_source *source, void (*fn)(void *arg, const char *path),
		      void *arg);

/** The keys in the order of the manual page. @return NULL: there is none of that number */
const struct config_key *config_key(size_t number);

/** May config_with() give it another value, if that is a good one? */
bool config_key_is_settable(const struct config_key *key);

/** The settings of a key. @param after  the one before; NULL: the first. @return NULL: no more */
const struct config_setting *config_next_setting(const struct config *config,
						 const struct config_key *key,
						 const struct config_setting *after);

/** What differs. Of a list one thing that was said, or is, is one change. */
struct config_change {
	const struct config_key *key;
	const char *from, *to; /* NULL: it was not said, or is not. Both: another value; of a list
				  both are "": another order */
	bool found; /* of a list that `finds`: it was empty (with `to`), or is so now (`from`) */
};

/** Call `fn` for each difference. Those of keys that take a restart are among them. */
void config_compare(const struct config *before, const struct config *now,
		    void (*fn)(void *arg, const struct config_change *change), void *arg);

/** In words: "log_level: info -> debug". @return malloc'ed, or NULL without memory */
char *config_change_text(const struct config_change *change);

/**
 * Prepare `next` to take the place of `running` without a restart: keys that take one keep the
 * value that they have, and `after_restart` says what they will have.
 * @return 0 or -ENOMEM
 */
int config_keep(const struct config *running, struct config *next);

/**
 * The running configuration with another value of one key, until one is loaded again. Of keys that
 * are no list, change without a restart, look nobody up and are not by the files only.
 * @param ret_next    config_free() it
 * @param ret_errors  what is wrong
 * @return false: something is
 */
bool config_with(const struct config *running, const char *key, const char *value,
		 struct config *ret_next, struct config_notes *ret_errors);

/**
 * The running configuration with one RNIC more, or less, until one is loaded again.
 * @param ret_next    config_free() it
 * @param ret_errors  why not: that is so already, or smcrd uses those that it finds
 * @return false: there are errors
 */
bool config_with_rnic(const struct config *running, const char *rnic, bool wanted,
		      struct config *ret_next, struct config_notes *ret_errors);

/**
 * An operator has taken back, at run time, what the files say: a UEID, a rule or an RNIC. The next
 * configuration has it again, and that is a change.
 * @param key    "ueid", "deny", "allow" or "rnic"
 * @param value  as settings have it; nothing happens if there is none
 * @return was there one?
 */
bool config_forget(struct config *config, const char *key, const char *value);

/** Is this IPv4 address (host byte order) in one of the capable subnets? */
bool config_peer_assumed_capable(const struct config *config, uint32_t addr);

#endif
