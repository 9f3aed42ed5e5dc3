/* SPDX-License-Identifier: MIT */
/**
 * @file rnics.h
 * Which RNICs the daemon uses. These are the RNICs that the configuration names. If it names none,
 * they are all verbs devices that have a RoCE GID of an interface's address; without any verbs
 * device, soft RNICs on the host's Ethernet interfaces that have an IPv4 address. RNICs are opened
 * when they exist, at the start or later, and again when they come back. An RNIC stays with its
 * interface when that is renamed. One event loop, one thread.
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
	/** Work of the event loop on RNICs begins. */
	void (*at_work)(void *ctx);
	/** An RNIC was opened from the event loop. */
	void (*opened)(void *ctx);
	void *ctx;
};

/**
 * Open the RNICs that exist. A named RNIC that is missing is waited for, if another one exists.
 * @return 0; else as rnic_open(), with its sentence: no named RNIC exists, or one cannot be used
 */
int rnics_new(const struct rnics_params *params, struct rnics **ret_rnics,
	      char ret_error[RNIC_ERROR_LEN]);
void rnics_free(struct rnics *rnics);

/**
 * Call `fn` for RNICs that are wanted but not in use: those that the configuration names and that
 * do not exist, and those that cannot be used.
 * @param error  a sentence that says why; "": the RNIC is waited for
 */
void rnics_each_missing(const struct rnics *rnics,
			void (*fn)(void *arg, const char *name, const char *error), void *arg);

/**
 * Open the RNICs that `next` names and that are not open. RNICs that may come later are waited for
 * once `next` is the configuration.
 * @param ret_errors  why an RNIC cannot be used; then all that were opened here are closed again
 * @param ret_notes   which RNICs are waited for
 */
void rnics_prepare(struct rnics *rnics, const struct config *next, struct config_notes *ret_errors,
		   struct config_notes *ret_notes);
/**
 * The configuration that params.config points to has changed. Drain the RNICs that it does not
 * want, and close each as soon as no link uses it.
 * @param ret_notes  which RNICs stay open until then
 */
void rnics_settle(struct rnics *rnics, struct config_notes *ret_notes);

/**
 * An operator takes an RNIC out of use, or wants it used again: fabric_drain_device(). This also
 * holds after the RNIC is gone and comes back, until the daemon ends.
 * @return 0; -ENODEV: there is no such RNIC; -EPERM: it is to be used again, but the configuration
 *         does not name it, and it is only open until its links have ended
 */
int rnics_drain(struct rnics *rnics, const char *name, bool drained);

/** An RNIC has another name, as its interface was renamed: it stays out of use if it was. */
void rnics_renamed(struct rnics *rnics, const char *before, const char *now);

/** An interface was added, changed or removed: tell its RNIC, or open one soon. */
void rnics_netif_changed(struct rnics *rnics, const struct netif *netif);
/** An RDMA device was added or removed: tell the RNICs, and open new ones soon. */
void rnics_devices_changed(struct rnics *rnics);
/** An RNIC is gone: check soon whether its interface is back. May be called from anywhere. */
void rnics_look(struct rnics *rnics);

#endif
