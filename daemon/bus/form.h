/* SPDX-License-Identifier: MIT */
/**
 * @file form.h
 * What a method of the control's table is called on the bus, by rule, so that none has to be
 * written down twice:
 *
 * "link.delete" is DeleteLink of the manager. What the method cannot do without comes as arguments
 * of their own, in the table's order; the rest, if there is any, as options a{sv}. Where the first
 * arguments name an object of the bus, the method is one of that object's as well, without them: it
 * is Delete there, and link.add, which takes a link group, is AddLink of the link group.
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
	unsigned int bound;     /* parameters that the object names: bits as the method's */
	unsigned int arguments; /* likewise, that are arguments */
	bool options;           /* there are others */
	bool parts;             /* what is shown comes in parts */
	char member[FORM_NAME_LEN];
	char in[FORM_SIGN_LEN], out[FORM_SIGN_LEN]; /* signatures */
	char names[FORM_NAMES_LEN]; /* of all arguments, then results, each with a NUL */
};

/** "peer_id" is PeerId, "tcp_option.available" TcpOptionAvailable. It is cut to fit. */
void form_camel(const char *name, char ret_camel[FORM_NAME_LEN]);

/** The type of a parameter on the bus. */
char form_type(const struct control_param *param);

/** @return false: objects of the class have no such method */
bool form_make(const struct control_method *method, enum form_class class, struct form *ret_form);

#endif
