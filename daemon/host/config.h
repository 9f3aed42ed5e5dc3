/* SPDX-License-Identifier: MIT */
/**
 * @file config.h
 * The configuration (smcrd.conf(5) and the command line): its keys and their values, where each
 * value came from, and what differs between two configurations.
 *
 *   config.c         the table of keys: what each may be, and how it may change
 *   config_files.c   files, parsed by libinih, and every error in them
 *   config_compare.c what a new configuration changes
 *   config_smb.c     values of the keys about SMB Direct
 *   config_key.h     declarations that these files share
 *
 * Several threads may call these functions at once, each for a configuration of its own.
 */
#ifndef SMCRD_HOST_CONFIG_H
#define SMCRD_HOST_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/host/config_smb.h"
#include "daemon/policy/rules.h"
#include "daemon/policy/shorts.h"
#include "daemon/smcr/engine.h"

#define CONFIG_MAX_RNICS      16
#define CONFIG_MAX_SUBNETS    64
#define CONFIG_MAX_VERBS_NAME 53 /* longest name of an RDMA device, without the port */
#define CONFIG_MAX_NOTES      50 /* further notes are only counted */

/** An IPv4 network whose hosts are assumed to be SMC-R capable where BPF is not permitted. */
struct config_subnet {
	uint32_t addr; /* host byte order, host bits zero */
	uint8_t prefix_len;
};

/** A key of smcrd.conf(5). */
struct config_key {
	const char *name;
	bool list;     /* may be given several times; each time adds one value */
	bool ordered;  /* of a list: the order matters */
	bool finds;    /* of a list: if it is empty, smcrd uses everything that it finds */
	bool restart;  /* a change takes a restart, not just a reload. Never set for a list */
	bool looks_up; /* the value names a user or group, whose lookup may take long */
	bool by_files; /* only files change it: smcrd opens what it names, with its own rights */
	const char *instead; /* of a list: smcrctl commands that change it at run time; or NULL */
};

enum config_origin {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_COMMAND_LINE,
	CONFIG_FROM_RUN_TIME, /* config_with() */
};

/** A value in force. A list key has one setting for each value, any other key exactly one. */
struct config_setting {
	const struct config_key *key;
	char *value; /* in one form for each meaning, however it was written */
	enum config_origin origin;
	char *file; /* CONFIG_FROM_FILE: path and line; else NULL and 0 */
	unsigned int line;
	char *after_restart; /* the value that a restart will bring, if another; else NULL */
};

enum config_dbus {
	CONFIG_DBUS_NO,
	CONFIG_DBUS_YES,
	CONFIG_DBUS_AUTO, /* if there is a system bus */
};

/** The main file, as it was when it was read. */
struct config_main_file {
	const char *path; /* belongs to the source, or is the default path */
	bool named;       /* by the source */
	bool read;        /* false: there was none, which only the default path may be */
	dev_t device;
	ino_t inode;
	int64_t changed_us; /* since 1970 */
};

struct config {
	struct config_main_file main;
	char *rnics[CONFIG_MAX_RNICS]; /* "soft:IFNAME" or "verbs:DEV[/PORT]"; none = discover */
	size_t num_rnics;
	char *socket_path;
	char *metrics_socket;  /* path of the Unix socket that serves metrics over HTTP; "": none */
	char *metrics_address; /* "ADDRESS:PORT" where TCP serves them; "": none */
	char *admin_group;     /* its members may change things with smcrctl; "": only root may */
	gid_t admin_gid;       /* number of admin_group, if there is one */
	enum config_dbus dbus;
	int log_level; /* LOG_ERR .. LOG_DEBUG */
	struct config_subnet capable_subnets[CONFIG_MAX_SUBNETS];
	size_t num_capable_subnets;
	struct policy_rule *rules; /* which connections may use SMC-R */
	size_t num_rules;
	unsigned int skip_seconds; /* how long a peer that failed is left to TCP, the first time */
	struct shorts_config shorts;
	unsigned int connect_wait_ms;           /* how long connect() waits for the rendezvous */
	unsigned int tcp_keepalive_min_seconds; /* of TCP sockets behind SMC-R; 0: no minimum */
	unsigned int busy_poll_us; /* how long the event loop looks for work before it sleeps */
	bool shared_memory;        /* programs may map the memory of their connections */
	bool egress_guard; /* keep users from UDP port 4791 and from sending CLC themselves */
	unsigned int max_connections_per_user;
	unsigned int max_sessions_per_user;
	struct config_smb smb;     /* the gateway between SMB over TCP and SMB Direct */
	struct smcr_config engine; /* peer_id and host_name are not set here */
	/** All values as text; config_next_setting() gives those of one key. */
	struct config_setting *settings;
	size_t num_settings;
};

/** A list of sentences, for example errors of a configuration. */
struct config_notes {
	size_t num;                   /* notes made; at most CONFIG_MAX_NOTES are kept */
	char *text[CONFIG_MAX_NOTES]; /* NULL: no memory; use config_note_text() */
};

void config_note(struct config_notes *notes, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void config_notes_free(struct config_notes *notes);
/** The sentence at index `i`, less than config_notes_kept(). Owned by the notes. */
const char *config_note_text(const struct config_notes *notes, size_t i);
/** How many sentences are kept. */
size_t config_notes_kept(const struct config_notes *notes);

/** Where a configuration comes from. The strings belong to the caller; `path` has to live as long
 * as the configuration. */
struct config_source {
	const char *path; /* of the main file; NULL: the default path, where it may be missing */
	/* From the command line, which overrides the files: */
	const char *socket_path;             /* NULL: as the files say */
	const char *rnics[CONFIG_MAX_RNICS]; /* replace those of the files */
	size_t num_rnics;
};

/**
 * Read the main file and then the *.conf files of smcrd.conf.d beside it, in alphabetical order.
 * Later files replace values of earlier ones, and the command line replaces both. A key that is no
 * list is an error if it is twice in one file. Looks users and groups up, which may take long.
 * @param ret_errors  every error, as "FILE:LINE: KEY: why"; zeroed by the caller before, freed by
 *                    the caller after
 * @return 0, and the caller frees `ret_config`; -EINVAL: there are errors; another negative errno:
 *         the main file cannot be opened
 */
int config_load(const struct config_source *source, struct config *ret_config,
		struct config_notes *ret_errors);
void config_free(struct config *config);

/** Call `fn` for every file that config_load() reads, and for the main file even if it is
 * missing. */
void config_each_file(const struct config_source *source, void (*fn)(void *arg, const char *path),
		      void *arg);

/** The keys in the order of the manual page, counted from 0. @return NULL: there are no more */
const struct config_key *config_key(size_t number);

/** May config_with() change this key? */
bool config_key_is_settable(const struct config_key *key);

/** The settings of a key, one after the other. @param after the previous setting; NULL: give the
 * first. @return NULL: there are no more */
const struct config_setting *config_next_setting(const struct config *config,
						 const struct config_key *key,
						 const struct config_setting *after);

/** A difference between two configurations. For a list, each added and each removed value is
 * one. */
struct config_change {
	const struct config_key *key;
	/** Of a list: NULL and an added value, or a removed value and NULL; both "": another order.
	 */
	const char *from, *to;
	bool found; /* of a list that `finds`: it was empty (`to`), or is empty now (`from`) */
};

/** Call `fn` for each difference, also of keys that take a restart. */
void config_compare(const struct config *before, const struct config *now,
		    void (*fn)(void *arg, const struct config_change *change), void *arg);

/** The difference as text: "log_level: info -> debug". @return malloc'ed; NULL: no memory */
char *config_change_text(const struct config_change *change);

/**
 * Prepare `next` to take the place of `running` without a restart. Keys that take a restart keep
 * their running value, and `after_restart` gets the value of `next`.
 * @return 0 or -ENOMEM
 */
int config_keep(const struct config *running, struct config *next);

/**
 * Copy the running configuration and change one key, for which config_key_is_settable() holds. The
 * change lasts until a configuration is loaded again.
 * @param ret_next    the caller frees it with config_free()
 * @param ret_errors  what is wrong; empty on success
 * @return false: there are errors
 */
bool config_with(const struct config *running, const char *key, const char *value,
		 struct config *ret_next, struct config_notes *ret_errors);

/**
 * Copy the running configuration and add or remove one RNIC. The change lasts until a configuration
 * is loaded again.
 * @param ret_next    the caller frees it with config_free()
 * @param ret_errors  why not
 * @return 0; -EINVAL: this is no name of an RNIC; -EEXIST: the RNIC is named already; -ENOSPC: no
 *         more can be named; -ENOENT: it is not named; -EBUSY: smcrd uses the RNICs that it finds,
 *         or would without this one; -ENOMEM
 */
int config_with_rnic(const struct config *running, const char *rnic, bool wanted,
		     struct config *ret_next, struct config_notes *ret_errors);

/**
 * An operator has removed, at run time, a UEID, a rule or an RNIC that the files have. Forget it,
 * so that the next configuration, which has it again, counts as a change.
 * @param key    "ueid", "deny", "allow" or "rnic"
 * @param value  in the form of config_setting; nothing happens if there is no such setting
 * @return true: there was such a setting
 */
bool config_forget(struct config *config, const char *key, const char *value);

/** Is this IPv4 address (host byte order) in one of the capable subnets? */
bool config_peer_assumed_capable(const struct config *config, uint32_t addr);

#endif
