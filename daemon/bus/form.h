/* SPDX-License-Identifier: MIT */
/**
 * @file form.h
 * The names and signatures that methods of the table in daemon/control have on the bus. They follow
 * from rules, so that no method is declared twice:
 *
 * "link.delete" is DeleteLink of the manager. Required parameters are arguments, in the table's
 * order; optional ones, if there are any, are options a{sv}. If the first arguments name an object
 * of the bus, that object has the method too, without these arguments: there it is Delete, and
 * link.add, which takes a link group, is AddLink of the link group.
 */
#ifndef SMCRD_BUS_FORM_H
#define SMCRD_BUS_FORM_H

#include "daemon/control/methods.h"

#define FORM_NAME_LEN  64
#define FORM_NAMES_LEN 256
#define FORM_SIGN_LEN  32

enum form_class {
	FORM_MANAGER,
	FORM_DEVICE,
	FORM_LINKGROUP,
	FORM_LINK,
	NUM_FORM_CLASSES,
};

struct form {
	struct control_method method;
	unsigned int bound;     /* parameters that the object replaces: bits as in the method */
	unsigned int arguments; /* parameters that are arguments: bits as in the method */
	bool options;           /* the method has options */
	bool parts;             /* the reply comes in parts */
	char member[FORM_NAME_LEN];
	char in[FORM_SIGN_LEN], out[FORM_SIGN_LEN]; /* signatures */
	char names[FORM_NAMES_LEN]; /* of all arguments, then results, each with a NUL */
};

/** "peer_id" is PeerId, "tcp_option.available" TcpOptionAvailable. Cut if it is too long. */
void form_camel(const char *name, char ret_camel[FORM_NAME_LEN]);

/** The type of a parameter on the bus. */
char form_type(const struct control_param *param);

/** @return false: objects of the class have no such method */
bool form_make(const struct control_method *method, enum form_class class, struct form *ret_form);

#endif
