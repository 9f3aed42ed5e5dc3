/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of this room share. */
#ifndef SMCRD_BUS_INTERNAL_H
#define SMCRD_BUS_INTERNAL_H

#include <event2/event.h>
#include <systemd/sd-bus.h>
#include <uthash.h>

#include "daemon/bus/bus.h"
#include "daemon/bus/form.h"

#define BUS_ROOT       "/org/smcrd"
#define BUS_INTERFACE  "org.smcrd." /* then the class and the version */
#define BUS_MANAGER    BUS_INTERFACE "Manager1"
#define BUS_PATH_LEN   256
#define BUS_ERROR_NAME "org.smcrd.Error." /* then the control's code, in camel case */

struct call;
struct caller;

/** What the bus asks about: a place that exists, until it asks about another one. */
struct bus_object {
	struct bus *bus;
	enum form_class class;
	char name[BUS_PATH_LEN]; /* of a device */
	uint32_t linkgroup;
	uint8_t link;
	json_t *row; /* as the show method has it; of the manager once it is looked at */
};

/** The methods, properties and signals of a class, as sd-bus wants them. */
struct bus_class {
	struct form *forms;
	size_t num_forms;
	sd_bus_vtable *vtable;
	char *names; /* of its properties */
};

/** What the log was told last; it is told only when that changes. */
enum bus_told {
	BUS_TOLD_NOTHING,
	BUS_TOLD_ABSENT,
	BUS_TOLD_REFUSED,
	BUS_TOLD_SERVED,
};

struct bus {
	struct bus_params params;
	enum config_dbus wanted;
	sd_bus *sd;          /* NULL: there is no connection */
	struct event *io;    /* of that, while something is waited for */
	struct event *timer; /* the next turn; without a connection the next attempt */
	bool served;         /* it has had the name, or a place in the queue for it */
	bool queued;         /* another program had the name when this one wanted it */
	bool refused;        /* the name */
	int failed;          /* 0, or a negative errno: the connection is of no use */
	bool writable;       /* this turn is because of that */
	bool working;        /* on what has come from the bus: nothing of it may be closed now */
	bool kicked;         /* there is work that the bus does not know of */
	bool resting;        /* until next_us */
	uint64_t next_us;
	unsigned int wait_s; /* before the next attempt */
	enum bus_told told;
	struct bus_class classes[NUM_FORM_CLASSES];
	struct bus_object found;
	struct call *calls; /* oldest first */
	size_t num_calls;
	struct caller *callers; /* of this second */
	uint64_t callers_until; /* its end */
	uint64_t last_request;
	bool events_begun;   /* those behind that one are told */
	uint64_t last_event; /* that was told or left out */
	uint64_t lost;       /* events that could not be told, and nobody has heard so */
	uint64_t signals_at; /* not before that are more of them told; 0: at once */
};

/** Ask the control, as nobody in particular. @return the "result", a new reference, or NULL
 *  @param params  taken over; may be NULL
 *  @param ret_more  there is another part; may be NULL */
json_t *bus_look(struct bus *bus, const char *method, json_t *params, bool *ret_more);
/** Does so much wait to be sent that nothing is to be added? */
bool bus_is_clogged(const struct bus *bus);
/** Have a turn soon. */
void bus_kick(struct bus *bus);
/** A number for a request that bus_is_request() knows. */
uint64_t bus_next_request(struct bus *bus);

/* objects.c */
/** @return 0 or -ENOMEM */
int objects_make(struct bus *bus);
void objects_free(struct bus *bus);
/** Say what there is on a new connection. @return 0 or a negative errno */
int objects_add(struct bus *bus);
/** The path of the object that a row of a show method is about; "": of none. */
void objects_path(enum form_class class, const json_t *row, char ret_path[BUS_PATH_LEN]);

/* callers.c */
/** Count a call. @return false: this connection to the bus has had its calls of this second */
bool callers_admit(struct bus *bus, const char *sender, uint64_t now);
void callers_forget(struct bus *bus);

/* calls.c */
/** Whatever is called on the bus, before anything is done about it.
 *  @return 1: it is dealt with, 0: it is to be done, or a negative errno */
int calls_admit(struct bus *bus, sd_bus_message *message);
int calls_on_method(sd_bus_message *message, void *userdata, sd_bus_error *ret_error);
/** Send the answers that have come. */
void calls_answer(struct bus *bus);
/** The connection goes: forget all of them. */
void calls_forget(struct bus *bus);

/* signals.c */
/** The signals of the manager's interface, for a vtable. @return how many; with NULL too */
size_t signals_list(sd_bus_vtable *ret_signals);
/** Tell what has happened since the last time, or some of it; the rest at bus->signals_at. */
void signals_send(struct bus *bus, uint64_t now);

#endif
