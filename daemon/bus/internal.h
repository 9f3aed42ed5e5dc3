/* SPDX-License-Identifier: MIT */
/**
 * @file internal.h
 * What the files of daemon/bus share. All files except bus.c and letters.c belong to the thread.
 */
#ifndef SMCRD_BUS_INTERNAL_H
#define SMCRD_BUS_INTERNAL_H

#include <stdatomic.h>
#include <systemd/sd-bus.h>
#include <uthash.h>

#include "daemon/bus/bus.h"
#include "daemon/bus/form.h"
#include "daemon/bus/letters.h"

#define BUS_ROOT       "/org/smcrd"
#define BUS_INTERFACE  "org.smcrd." /* followed by class and version */
#define BUS_MANAGER    BUS_INTERFACE "Manager1"
#define BUS_PATH_LEN   256
#define BUS_PLACE_LEN  64                 /* of the place where a part of a view begins */
#define BUS_ERROR_NAME "org.smcrd.Error." /* then the code, in camel case */

#define BUS_REQUESTS (UINT64_C(1) << 63) /* larger than any request number of the Unix socket */

struct call;
struct caller;

/** What the loop and the thread share. The thread reads it whenever its box is poked. */
struct orders {
	struct box loop;          /* letters to it */
	struct box thread;        /* letters to it */
	atomic_bool wanted;       /* smcrd is to be on the bus */
	atomic_uint given;        /* how often `wanted` was set */
	atomic_ullong last_event; /* id of the last event */
	atomic_bool ends;         /* the thread has to end */
	/* From struct bus_params; these do not change: */
	uint64_t silence_us;
	uint64_t patience_us;
};

/** The object that sd-bus asks about; valid until it asks about another one. */
struct bus_object {
	struct bus_thread *thread;
	enum form_class class;
	char name[BUS_PATH_LEN]; /* of a device */
	uint32_t linkgroup;
	uint8_t link;
	json_t *row; /* as in the reply of the show method; the manager's once it was asked for */
};

/** A property has the name of its key, in camel case. */
struct property {
	const char *key;  /* in the row; with dots: in objects inside the row */
	const char *type; /* a type of values_append() */
	enum {
		PROPERTY_COUNTS,  /* changes at any time, without a signal */
		PROPERTY_STAYS,   /* does not change while the object exists */
		PROPERTY_CHANGES, /* changes are told by a signal */
	} how;
};

#define BUS_MAX_WATCHED 16 /* more than any class has properties that change */

/** An object, with its row of the show method. */
struct place {
	enum form_class class;
	json_t *row;
	UT_hash_handle hh;
	char path[];
};

/** The methods, properties and signals of a class, for sd-bus. */
struct bus_class {
	struct bus_thread *thread;
	enum form_class class;
	struct form *forms;
	size_t num_forms;
	sd_bus_vtable *vtable;
	char *names; /* names of its properties */
};

struct bus_thread {
	struct orders *orders;
	const char *address; /* of the bus; NULL: the system bus */
	pthread_t id;
	sd_bus *sd;            /* NULL: no connection */
	bool served;           /* smcrd has had the name, or a place in the queue for it */
	bool queued;           /* another program had the name when smcrd wanted it */
	bool refused;          /* smcrd may not have the name */
	int failed;            /* 0, or a negative errno: the connection is broken */
	bool writable;         /* the connection has become writable in this turn */
	bool poked;            /* the box may have letters although its fd is not readable */
	bool long_answer;      /* a long answer is on its way to the bus */
	uint64_t all_since;    /* when the last answer about all objects was begun */
	uint64_t all_at;       /* earliest time of the next such answer */
	uint64_t num_queued;   /* how many messages waited to be sent */
	uint64_t queued_since; /* since when as many have waited */
	unsigned int followed; /* as orders->given when `wanted` was followed last */
	uint64_t rests_until;  /* the thread uses no processor until then; 0: it may */
	uint64_t tries_at;     /* without a connection: when to try to connect next */
	unsigned int wait_s;   /* before the next attempt */
	struct bus_class classes[NUM_FORM_CLASSES];
	struct bus_object found;
	struct place *shown;    /* all objects, while they are being read */
	struct place *told;     /* all objects, as told to the bus */
	bool asks_for_all;      /* the present call asks for all objects */
	const char *leaving;    /* path of an object that is gone and is being told */
	bool tracks;            /* objects have been told before */
	bool track_again;       /* some objects could not be told */
	uint64_t tracked_event; /* changes up to this event have been told */
	uint64_t track_soon;    /* earliest time to tell more changes */
	uint64_t track_late;    /* time to tell them even if no event has come */
	struct call *calls;     /* oldest first */
	size_t num_calls;
	struct caller *callers; /* callers of the present second */
	uint64_t callers_until; /* end of that second */
	uint64_t last_request;
	bool events_begun;   /* events behind `last_event` are told */
	uint64_t last_event; /* the last event that was told or left out */
	uint64_t lost;       /* how many events could not be told, if that was not told either */
	uint64_t signals_at; /* earliest time to tell more events; 0: at once */
};

/* thread.c */
/** @return 0 or a negative errno: the thread could not be started. @param orders must outlive the
 *         thread */
int thread_start(struct orders *orders, const char *address, struct bus_thread **ret_thread);
/** Wait until the thread has ended. NULL is allowed. */
void thread_end(struct bus_thread *thread);
/** Call a method of daemon/control without a caller's rights. Returns when the loop has answered,
 * or smcrd ends.
 *  @return the "result", a new reference, or NULL
 *  @param params    taken over; may be NULL
 * @param ret_next  where the next part begins, "" if there is none; may be NULL */
json_t *thread_look(struct bus_thread *thread, const char *method, json_t *params,
		    char ret_next[BUS_PLACE_LEN]);
/** Do so many messages wait to be sent that none may be added? */
bool thread_is_clogged(const struct bus_thread *thread);
/** A new request number, which the Unix socket never uses. */
uint64_t thread_next_request(struct bus_thread *thread);

/* objects.c */
/** @return 0 or -ENOMEM */
int objects_make(struct bus_thread *thread);
void objects_free(struct bus_thread *thread);
/** Tell sd-bus the objects on a new connection. @return 0 or a negative errno */
int objects_add(struct bus_thread *thread);
/** The path of the object that a row of a show method describes; "": it describes none.
 * @param row  of the manager: all that its show method tells */
void objects_path(enum form_class class, const json_t *row, char ret_path[BUS_PATH_LEN]);

/** The names of the method that shows objects of a class, and of their interface. */
const char *objects_method(enum form_class class);
const char *objects_interface(enum form_class class);

/* places.c */
/** Add all objects of a class, at most BUS_MAX_OBJECTS. @return false: some are missing */
bool places_look(struct bus_thread *thread, enum form_class class, struct place **places);
/** @return false: there is no memory. @param row  not taken over */
bool places_add(struct place **places, enum form_class class, const char *path, json_t *row);
/** @return NULL: there is none */
struct place *places_find(struct place *places, const char *path);
void places_remove(struct place **places, struct place *place);
void places_clear(struct place **places);

/* properties.c */
/** @return the properties of a class; the key behind the last one is NULL */
const struct property *properties_of(enum form_class class);
/** Append the value of a property. @param member name of the property */
int properties_append(sd_bus_message *message, enum form_class class, const char *member,
		      const json_t *row);
/** @return how many properties of kind PROPERTY_CHANGES have changed, and their names */
size_t properties_changed(enum form_class class, const json_t *before, const json_t *after,
			  char ret_names[BUS_MAX_WATCHED][FORM_NAME_LEN]);

/* track.c */
/** When it is due, tell which objects were added, were removed and have changed. */
void track_send(struct bus_thread *thread);
/** Read all objects for a call that asks for them, unless that was done just before. @return false:
 * thread->told lacks some */
bool track_look(struct bus_thread *thread);
/** When track_send() is due. */
uint64_t track_due(const struct bus_thread *thread);
/** The connection is closed. */
void track_forget(struct bus_thread *thread);

/* callers.c */
/** Count a call as `weight` calls. @return false: this connection to the bus has used up its calls
 * of this second */
bool callers_admit(struct bus_thread *thread, const char *sender, unsigned int weight,
		   uint64_t now);
void callers_forget(struct bus_thread *thread);

/* calls.c */
/** Check a method call before it is handled.
 * @return 1: it was answered here, 0: handle it, or a negative errno */
int calls_admit(struct bus_thread *thread, sd_bus_message *message);
int calls_on_method(sd_bus_message *message, void *userdata, sd_bus_error *ret_error);
/** Send the answers that have come. */
void calls_answer(struct bus_thread *thread);
/** The connection is closed: forget all calls. */
void calls_forget(struct bus_thread *thread);

/* signals.c */
/** The signals of the manager's interface, for a vtable. @return how many; with NULL too */
size_t signals_list(sd_bus_vtable *ret_signals);
/** Tell the events since the last call, or some of them; the rest follows at thread->signals_at. */
void signals_send(struct bus_thread *thread, uint64_t now);

#endif
