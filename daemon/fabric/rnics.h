/* SPDX-License-Identifier: MIT */
/**
 * @file rnics.h
 * Which RNICs the daemon has: those that the configuration names or, if it names none, every verbs
 * device that has a RoCE GID of an interface's address; and as long as there is no verbs device,
 * soft RNICs on the host's Ethernet interfaces that have an IPv4 address. They are opened when they
 * are there, at the start or later, and again when they come back; an RNIC keeps to its interface
 * when that is renamed. One event loop, one thread.
 */
#ifndef SMCRD_FABRIC_RNICS_H
#define SMCRD_FABRIC_RNICS_H

#include "daemon/fabric/fabric.h"
#include "daemon/host/config.h"
#include "daemon/host/netif.h"

struct rnics;

struct rnics_params {
	struct event_base *base;
	struct fabric *fabric;
	struct netif_watch *netifs;
	const struct config *config;
	/** The event loop begins to look for RNICs, or to close some. */
	void (*at_work)(void *ctx);
	/** An RNIC was opened from the event loop. */
	void (*opened)(void *ctx);
	void *ctx;
};

/**
 * Open what is there. A named one that is missing is waited for, if another RNIC is there.
 * @return 0; else as rnic_open() with its sentence: no named RNIC is there, or one cannot be used
 */
int rnics_new(const struct rnics_params *params, struct rnics **ret_rnics,
	      char ret_error[RNIC_ERROR_LEN]);
void rnics_free(struct rnics *rnics);

/**
 * RNICs that are wanted and not in use: those that the configuration names and that are not there,
 * and those that cannot be used.
 * @param error  why, a sentence; "": it is waited for
 */
void rnics_each_missing(const struct rnics *rnics,
			void (*fn)(void *arg, const char *name, const char *error), void *arg);

/**
 * Open what `next` names and is not open. One that may come later is waited for once `next` is the
 * configuration.
 * @param ret_errors  why one cannot be used; then those that were opened are closed again
 * @param ret_notes   which are waited for
 */
void rnics_prepare(struct rnics *rnics, const struct config *next, struct config_notes *ret_errors,
		   struct config_notes *ret_notes);
/**
 * The configuration that params.config points to is another one. RNICs that it does not want are
 * drained, and closed as soon as no link uses them.
 * @param ret_notes  those that stay open until then
 */
void rnics_settle(struct rnics *rnics, struct config_notes *ret_notes);

/**
 * An operator takes an RNIC out of use, or wants it used again: fabric_drain_device(). That holds
 * also when it goes and comes back, until the daemon ends.
 * @return 0; -ENODEV: it is not there
 */
int rnics_drain(struct rnics *rnics, const char *name, bool drained);

/** An interface came, changed or went: tell its RNIC, or open one soon. */
void rnics_netif_changed(struct rnics *rnics, const struct netif *netif);
/** An RDMA device came or went: tell the RNICs, and open soon what is new. */
void rnics_devices_changed(struct rnics *rnics);
/** An RNIC has gone: see soon whether its interface is back. May be called from anywhere. */
void rnics_look(struct rnics *rnics);

#endif
