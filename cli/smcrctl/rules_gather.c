/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"
#include "cli/smcrctl/netns.h"
#include "cli/smcrctl/rules.h"

#define SERVICE_USER "smcrd"
#define SOFT         "soft:" /* begins the name of a software RNIC; then comes its interface */

struct gather {
	struct rules *rules;
	const char *socket_path;
	char *error; /* SESSION_ERROR_LEN */
};

/* ---- texts for nft ---- */

/* nft takes no quote within quotes, and a name that ends in an asterisk for a pattern. */
static bool is_fit(const char *name)
{
	return *name && !strpbrk(name, "\"*\\\n");
}

static void add_once(json_t *list, const char *text)
{
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		if (!strcmp(json_string_value(item), text))
			return;
	}
	json_array_append_new(list, json_string(text));
}

/* ---- RNICs ---- */

static int add_interface(struct gather *gather, const char *name)
{
	if (is_fit(name)) {
		add_once(gather->rules->interfaces, name);
		return 0;
	}
	snprintf(gather->error, SESSION_ERROR_LEN,
		 "nft cannot be told of the interface '%s' by its name; rename it: ip link set "
		 "DEVICE name NAME",
		 name);
	return -EINVAL;
}

static void add_unsure(struct gather *gather, const char *rnic, const char *sentence)
{
	char text[256];
	snprintf(text, sizeof(text), "RNIC %.64s: %s", is_fit(rnic) ? rnic : "?", sentence);
	json_array_append_new(gather->rules->unsure, json_string(text));
}

static int add_device(struct gather *gather, const json_t *device)
{
	const char *name = doctor_text(device, "name"), *netdev = doctor_text(device, "netdev");
	if (strcmp(doctor_text(device, "kind"), "soft") != 0)
		add_unsure(gather, name,
			   "if it is hardware its packets do not pass here, and the switch has to "
			   "keep strangers out");
	if (*netdev)
		return add_interface(gather, netdev);
	add_unsure(gather, name, "smcrd does not tell its interface; name it below");
	return 0;
}

/* The interface of a device that is waited for: it comes later, and the rules are there already. */
static int add_missing(struct gather *gather, const json_t *rnic)
{
	const char *name = doctor_text(rnic, "name");
	if (!strncmp(name, SOFT, strlen(SOFT)))
		return add_interface(gather, name + strlen(SOFT));
	add_unsure(gather, name, "it is not there now; name its interface below");
	return 0;
}

static int add_all(struct gather *gather, const json_t *list,
		   int (*add)(struct gather *gather, const json_t *item))
{
	size_t i;
	json_t *item;
	int error = 0;
	json_array_foreach(list, i, item)
	{
		error = error ? error : add(gather, item);
	}
	return error;
}

/* ---- peers ---- */

/* RoCE goes between IPv4 addresses, which are GIDs with a prefix; of others there is nothing to
 * tell. A network may be behind a slash. */
static int add_address(struct gather *gather, const char *text)
{
	static const char mapped[] = "::ffff:";
	char address[INET_ADDRSTRLEN + 4], whole[INET_ADDRSTRLEN + 4];
	unsigned int bits = 32;
	struct in_addr in;
	if (!strncmp(text, mapped, strlen(mapped)))
		text += strlen(mapped);
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(text, "/"), text);
	if (inet_pton(AF_INET, address, &in) != 1)
		return 0;
	const char *slash = strchr(text, '/');
	if (slash && (sscanf(slash, "/%u", &bits) != 1 || bits > 32))
		return 0;
	inet_ntop(AF_INET, &in, whole, INET_ADDRSTRLEN);
	if (bits < 32)
		snprintf(whole + strlen(whole), 4, "/%u", bits);
	add_once(gather->rules->peers, whole);
	return 0;
}

static int add_gid(struct gather *gather, const json_t *item)
{
	return add_address(gather, doctor_text(item, "peer_gid"));
}

static int add_group(struct gather *gather, const json_t *group)
{
	return add_address(gather, doctor_text(group, "peer"));
}

/* Hosts that the configuration takes for peers before they have said so. */
static int add_setting(struct gather *gather, const json_t *setting)
{
	if (strcmp(doctor_text(setting, "key"), "capable_subnet") != 0)
		return 0;
	return add_address(gather, doctor_text(setting, "value"));
}

/* ---- users ---- */

/* smcrd's own user, and root. The service's user is there too: smcrd may have been started by hand
 * this time. */
static void add_users(struct gather *gather, const json_t *host)
{
	json_t *users = gather->rules->users;
	uid_t uid = (uid_t)doctor_number(host, "uid", NULL);
	const struct passwd *user = uid ? getpwuid(uid) : NULL;
	char number[16];
	snprintf(number, sizeof(number), "%u", uid);
	add_once(users, "root");
	if (uid)
		add_once(users, user && is_fit(user->pw_name) ? user->pw_name : number);
	if (getpwnam(SERVICE_USER))
		add_once(users, SERVICE_USER);
}

/* ---- smcrd's views ---- */

static int ask(struct gather *gather, const char *method, json_t **ret_result)
{
	return ask_smcrd(gather->socket_path, DOCTOR_PATIENCE_S, method, json_object(), ret_result,
			 gather->error);
}

/* @param key  which key of the view has the list; NULL: the view is the list */
static int add_view(struct gather *gather, const char *method, const char *key,
		    int (*add)(struct gather *gather, const json_t *item))
{
	json_t *view = NULL;
	int error = ask(gather, method, &view);
	if (!error)
		error = add_all(gather, key ? json_object_get(view, key) : view, add);
	json_decref(view);
	return error;
}

static int is_elsewhere(struct gather *gather)
{
	snprintf(gather->error, SESSION_ERROR_LEN,
		 "smcrd runs in another network namespace than this command, and the rules belong "
		 "there; as root: nsenter --net=/proc/%d/ns/net smcrctl doctor --rules",
		 (int)ask_pid(gather->socket_path));
	return -EXDEV;
}

static int add_host(struct gather *gather)
{
	json_t *host = NULL;
	int error = ask(gather, "host.show", &host);
	if (!error && netns_compare(host) == NETNS_OTHER)
		error = is_elsewhere(gather);
	if (!error)
		error = add_all(gather, json_object_get(host, "missing_rnics"), add_missing);
	if (!error)
		add_users(gather, host);
	json_decref(host);
	return error;
}

static int add_rnics(struct gather *gather)
{
	int error = add_view(gather, "device.show", NULL, add_device);
	if (error || json_array_size(gather->rules->interfaces) > 0)
		return error;
	snprintf(gather->error, SESSION_ERROR_LEN,
		 "smcrd has no RNIC, so that no interface can be named in the rules; 'smcrctl "
		 "doctor' says why");
	return -ENODEV;
}

static int add_peers(struct gather *gather)
{
	int error = add_view(gather, "linkgroup.show", NULL, add_group);
	if (!error)
		error = add_view(gather, "link.show", NULL, add_gid);
	if (!error)
		error = add_view(gather, "policy.show", "paths", add_gid);
	if (!error)
		error = add_view(gather, "config.show", NULL, add_setting);
	return error;
}

int rules_gather(const char *socket_path, struct rules *ret_rules,
		 char ret_error[SESSION_ERROR_LEN])
{
	struct gather gather = { ret_rules, socket_path, ret_error };
	*ret_rules = (struct rules){ json_array(), json_array(), json_array(), json_array() };
	int error = add_host(&gather);
	if (!error)
		error = add_rnics(&gather);
	if (!error)
		error = add_peers(&gather);
	return error;
}

void rules_free(struct rules *rules)
{
	json_decref(rules->interfaces);
	json_decref(rules->peers);
	json_decref(rules->users);
	json_decref(rules->unsure);
}
