/* SPDX-License-Identifier: MIT */
/** @file internal.h What the files of this room share. All but bus.c and letters.c is the thread's.
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
#define BUS_INTERFACE  "org.smcrd." /* then the class and the version */
#define BUS_MANAGER    BUS_INTERFACE "Manager1"
#define BUS_PATH_LEN   256
#define BUS_PLACE_LEN  64                 /* of where a part of a view begins */
#define BUS_ERROR_NAME "org.smcrd.Error." /* then the control's code, in camel case */

#define BUS_REQUESTS (UINT64_C(1) << 63) /* sessions of the Unix socket do not count so far */

struct call;
struct caller;

/** What the loop and the thread share; the thread looks at it whenever its box is poked. */
struct orders {
	struct box loop;          /* letters to it */
	struct box thread;        /* letters to it */
	atomic_bool wanted;       /* to be on the bus */
	atomic_uint given;        /* so often has `wanted` been said */
	atomic_ullong last_event; /* that there was */
	atomic_bool ends;         /* the thread */
	/* struct bus_params; these stay: */
	uint64_t silence_us;
	uint64_t patience_us;
};

/** What the bus asks about: a place that exists, until it asks about another one. */
struct bus_object {
	struct bus_thread *thread;
	enum form_class class;
	char name[BUS_PATH_LEN]; /* of a device */
	uint32_t linkgroup;
	uint8_t link;
	json_t *row; /* as the show method has it; of the manager once it is looked at */
};

/** A property is named as its key, in camel case. */
struct property {
	const char *key;  /* in the row; with dots: in objects of it */
	const char *type; /* as values_append() has them */
	enum {
		PROPERTY_COUNTS,  /* it changes at any time, and nobody is told */
		PROPERTY_STAYS,   /* as it is, for the life of the object */
		PROPERTY_CHANGES, /* and then the bus is told */
	} how;
};

#define BUS_MAX_WATCHED 16 /* properties of a class that change: more than any has */

/** An object, with its row of the show method. */
struct place {
	enum form_class class;
	json_t *row;
	UT_hash_handle hh;
	char path[];
};

/** The methods, properties and signals of a class, as sd-bus wants them. */
struct bus_class {
	struct bus_thread *thread;
	enum form_class class;
	struct form *forms;
	size_t num_forms;
	sd_bus_vtable *vtable;
	char *names; /* of its properties */
};

struct bus_thread {
	struct orders *orders;
	const char *address; /* of the bus; NULL: the system bus */
	pthread_t id;
	sd_bus *sd;            /* NULL: there is no connection */
	bool served;           /* it has had the name, or a place in the queue for it */
	bool queued;           /* another program had the name when this one wanted it */
	bool refused;          /* the name */
	int failed;            /* 0, or a negative errno: the connection is of no use */
	bool writable;         /* this turn is because of that */
	bool poked;            /* something may be in the box though its fd does not say so */
	bool long_answer;      /* one is on its way to the bus */
	uint64_t all_since;    /* that one was begun then */
	uint64_t all_at;       /* not before that is there another one */
	uint64_t num_queued;   /* messages that waited to be sent */
	uint64_t queued_since; /* so many */
	unsigned int followed; /* so many orders */
	uint64_t rests_until;  /* 0: it does not rest */
	uint64_t tries_at;     /* to come to the bus, without a connection */
	unsigned int wait_s;   /* before the next attempt */
	struct bus_class classes[NUM_FORM_CLASSES];
	struct bus_object found;
	struct place *shown;    /* all objects, while they are looked at */
	struct place *told;     /* the same, as the bus was told */
	bool asks_for_all;      /* the bus, with the call that is worked on */
	const char *leaving;    /* the path of one that has gone and is told now */
	bool tracks;            /* it has told of objects before */
	bool track_again;       /* not all could be told */
	uint64_t tracked_event; /* all up to this one are told */
	uint64_t track_soon;    /* not before that is more of them told */
	uint64_t track_late;    /* but then, if nothing is known to have happened */
	struct call *calls;     /* oldest first */
	size_t num_calls;
	struct caller *callers; /* of this second */
	uint64_t callers_until; /* its end */
	uint64_t last_request;
	bool events_begun;   /* those behind that one are told */
	uint64_t last_event; /* that was told or left out */
	uint64_t lost;       /* events that could not be told, and nobody has heard so */
	uint64_t signals_at; /* not before that are more of them told; 0: at once */
};

/* thread.c */
/** @return 0 or a negative errno: there is no thread to be had. @param orders  must outlive it */
int thread_start(struct orders *orders, const char *address, struct bus_thread **ret_thread);
/** Returns when the thread has ended. NULL is allowed. */
void thread_end(struct bus_thread *thread);
/** Ask the control, as nobody in particular. Returns when the loop has answered, or smcrd ends.
 *  @return the "result", a new reference, or NULL
 *  @param params    taken over; may be NULL
 *  @param ret_next  where the next part begins, "" without one; may be NULL */
json_t *thread_look(struct bus_thread *thread, const char *method, json_t *params,
		    char ret_next[BUS_PLACE_LEN]);
/** Does so much wait to be sent that nothing is to be added? */
bool thread_is_clogged(const struct bus_thread *thread);
/** A number for a request that none of the Unix socket has. */
uint64_t thread_next_request(struct bus_thread *thread);

/* objects.c */
/** @return 0 or -ENOMEM */
int objects_make(struct bus_thread *thread);
void objects_free(struct bus_thread *thread);
/** Say what there is on a new connection. @return 0 or a negative errno */
int objects_add(struct bus_thread *thread);
/** The path of the object that a row of a show method is about; "": of none. */
void objects_path(enum form_class class, const json_t *row, char ret_path[BUS_PATH_LEN]);

/** The name of the method that shows them, and of their interface. */
const char *objects_method(enum form_class class);
const char *objects_interface(enum form_class class);

/* places.c */
/** Add all objects of a class, or BUS_MAX_OBJECTS. @return false: not all could be looked at */
bool places_look(struct bus_thread *thread, enum form_class class, struct place **places);
/** @return false: there is no memory. @param row  not taken over */
bool places_add(struct place **places, enum form_class class, const char *path, json_t *row);
/** @return NULL: there is none */
struct place *places_find(struct place *places, const char *path);
void places_remove(struct place **places, struct place *place);
void places_clear(struct place **places);

/* properties.c */
/** @return those of a class; the key behind the last one is NULL */
const struct property *properties_of(enum form_class class);
/** The value of one. @param member  its name */
int properties_append(sd_bus_message *message, enum form_class class, const char *member,
		      const json_t *row);
/** @return how many of those have changed of which the bus is told, with their names */
size_t properties_changed(enum form_class class, const json_t *before, const json_t *after,
			  char ret_names[BUS_MAX_WATCHED][FORM_NAME_LEN]);

/* track.c */
/** Tell which objects have come, gone and changed, when it is time for that. */
void track_send(struct bus_thread *thread);
/** Look at all objects for who asks for them, unless that was done lately. @return false:
 * thread->told is not all of them */
bool track_look(struct bus_thread *thread);
/** When it is time. */
uint64_t track_due(const struct bus_thread *thread);
/** The connection goes. */
void track_forget(struct bus_thread *thread);

/* callers.c */
/** Count a call, as so many. @return false: this connection to the bus has had its calls of this
 * second */
bool callers_admit(struct bus_thread *thread, const char *sender, unsigned int weight,
		   uint64_t now);
void callers_forget(struct bus_thread *thread);

/* calls.c */
/** Whatever is called on the bus, before anything is done about it.
 *  @return 1: it is dealt with, 0: it is to be done, or a negative errno */
int calls_admit(struct bus_thread *thread, sd_bus_message *message);
int calls_on_method(sd_bus_message *message, void *userdata, sd_bus_error *ret_error);
/** Send the answers that have come. */
void calls_answer(struct bus_thread *thread);
/** The connection goes: forget all of them. */
void calls_forget(struct bus_thread *thread);

/* signals.c */
/** The signals of the manager's interface, for a vtable. @return how many; with NULL too */
size_t signals_list(sd_bus_vtable *ret_signals);
/** Tell what has happened since the last time, or some of it; the rest at thread->signals_at. */
void signals_send(struct bus_thread *thread, uint64_t now);

#endif
