/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/smcrctl/ask.h"
#include "cli/smcrctl/doctor.h"
#include "cli/smcrctl/netns.h"

/* ---- an smcrd with another socket ---- */

/* The smcrd of this network namespace, if it has another socket than this command was told.
 * @return what to call it and its socket; malloc'ed; NULL: there is none, or it does not tell */
static char *other_server(const struct doctor *doctor, struct ipc_serving *serving)
{
	struct stat st;
	char *text = NULL;
	if (!netns_server(serving) || !strcmp(serving->socket, doctor->socket_path))
		return NULL;
	bool own_pids = stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == serving->pid_namespace;
	bool seen = stat(serving->socket, &st) == 0 && S_ISSOCK(st.st_mode);
	if (asprintf(&text, "smcrd, process %u%s, serves this network namespace, on %s%s",
		     serving->pid, own_pids ? "" : " of another PID namespace", serving->socket,
		     seen ? "" : ", which is not to be seen from here") < 0)
		return NULL;
	return text;
}

/* ---- where BPF is not permitted, or smcrd does not tell: its abstract address has the path ----
 */

#define ABSTRACT_PREFIX "@smcrd:"
#define LISTENS         0x10000u /* a flag in /proc/net/unix */

/* Every user can make an abstract address; the file has to be of root or of the service. */
static bool is_of_smcrd(const char *path)
{
	const struct passwd *user = getpwnam("smcrd");
	struct stat st;
	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       (st.st_uid == 0 || (user && st.st_uid == user->pw_uid));
}

/* @return the path in a line of /proc/net/unix; NULL: it is not about an smcrd */
static const char *path_in(char *line)
{
	unsigned int flags;
	char *name = strstr(line, " " ABSTRACT_PREFIX);
	if (!name || sscanf(line, "%*s %*s %*s %x", &flags) != 1 || !(flags & LISTENS))
		return NULL;
	name += strlen(" " ABSTRACT_PREFIX);
	name[strcspn(name, "\n")] = '\0';
	return is_of_smcrd(name) ? name : NULL;
}

/* Where an smcrd listens in this network namespace; malloc'ed; NULL: nowhere. */
static char *another_socket(void)
{
	FILE *sockets = fopen("/proc/net/unix", "re");
	char *line = NULL, *found = NULL;
	size_t size = 0;
	while (sockets && !found && getline(&line, &size, sockets) > 0) {
		const char *path = path_in(line);
		if (path)
			found = strdup(path);
	}
	free(line);
	if (sockets)
		fclose(sockets);
	return found;
}

#define NAME_IT                                                                                    \
	"name that socket to smcrctl and smcr-run: --socket, or SMCRD_SOCKET=%s in the "           \
	"environment"

static void is_absent(struct doctor *doctor, const char *text)
{
	struct ipc_serving serving;
	char *other = other_server(doctor, &serving);
	char *elsewhere = other ? NULL : another_socket();
	doctor->absent = !elsewhere && !other;
	if (other)
		findings_add(&doctor->findings, FINDING_PROBLEM, "%s; but %s\n" NAME_IT, text,
			     other, serving.socket);
	else if (elsewhere)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "%s; but one listens on %s\n" NAME_IT, text, elsewhere, elsewhere);
	else
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "%s\nstart smcrd: systemctl start smcrd; if it ends at once its log "
			     "says why: journalctl -u smcrd; until then all connections are plain "
			     "TCP",
			     text);
	free(other);
	free(elsewhere);
}

static void does_not_answer(struct doctor *doctor, int error, const char *text)
{
	struct findings *findings = &doctor->findings;
	pid_t pid = error == -ETIMEDOUT ? ask_pid(doctor->socket_path) : 0;
	char process[32] = ""; /* unknown: it takes no caller any more */
	if (pid > 0)
		snprintf(process, sizeof(process), ", process %d,", (int)pid);
	if (error == -EACCES)
		findings_add(findings, FINDING_PROBLEM,
			     "%s\nlet users reach its directory (chmod a+x), or run this as root",
			     text);
	else if (error == -ECONNREFUSED)
		is_absent(doctor, text);
	else if (error == -ETIMEDOUT)
		findings_add(findings, FINDING_PROBLEM,
			     "smcrd%s does not answer within %d s, on %s\nis it stopped? "
			     "new connections stay TCP meanwhile; systemctl restart smcrd ends "
			     "the wait, and resets those that use SMC-R",
			     process, DOCTOR_PATIENCE_S, doctor->socket_path);
	else
		findings_add(
			findings, FINDING_PROBLEM, "%s\n%s", text,
			error == -EPROTO /* smcrd refuses */
				? "new connections of a user at a limit stay TCP: see "
				  "max_sessions_per_user in smcrd.conf(5); smcrd still answers "
				  "administrators"
				: "its log may say why: journalctl -u smcrd");
}

void doctor_daemon(struct doctor *doctor)
{
	char text[SESSION_ERROR_LEN];
	struct findings *findings = &doctor->findings;
	int error = ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "info.show", NULL,
			      &doctor->info, text);
	if (error) {
		does_not_answer(doctor, error, text);
		return;
	}
	/* Earlier versions of smcrd do not know host.show. */
	ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "host.show", NULL, &doctor->host, text);
	ask_smcrd(doctor->socket_path, DOCTOR_PATIENCE_S, "device.show", NULL, &doctor->devices,
		  text);
	const char *version = doctor_text(doctor->info, "version");
	findings_add(findings, FINDING_OK, "smcrd %s, process %d, answers, on %s", version,
		     (int)ask_pid(doctor->socket_path), doctor->socket_path);
	if (json_is_object(json_object_get(doctor->info, "draining")))
		findings_add(findings, FINDING_PROBLEM,
			     "smcrd is drained: no new connection uses SMC-R"
			     "\n'smcrctl drain --off' ends that");
	if (strcmp(version, SMCRD_VERSION) != 0)
		findings_add(findings, FINDING_WARNING,
			     "smcrd is of version %s and smcrctl of version " SMCRD_VERSION
			     "\nafter an upgrade restart smcrd when its connections may be reset: "
			     "systemctl restart smcrd",
			     version);
}

static void is_elsewhere(struct doctor *doctor)
{
	struct ipc_serving serving;
	char *other = other_server(doctor, &serving);
	const char *found = "smcrd runs in another network namespace than this command: "
			    "connections from here are plain TCP";
	doctor->elsewhere = true;
	if (other)
		findings_add(&doctor->findings, FINDING_PROBLEM, "%s; another %s\n" NAME_IT, found,
			     other, serving.socket);
	else
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "%s\nstart an smcrd in this namespace, with a --socket of its own "
			     "that SMCRD_SOCKET names, or run the program in the namespace of "
			     "smcrd",
			     found);
	free(other);
}

void doctor_namespace(struct doctor *doctor)
{
	struct findings *findings = &doctor->findings;
	if (!doctor->host)
		return;
	switch (netns_compare(doctor->host)) {
	case NETNS_UNKNOWN:
		findings_add(findings, FINDING_WARNING,
			     "whether smcrd is in the network namespace of this command cannot be "
			     "told before Linux 5.14\ncompare 'readlink /proc/self/ns/net' with "
			     "the link /proc/PID/ns/net of smcrd's process, as root");
		break;
	case NETNS_SAME:
		findings_add(findings, FINDING_OK,
			     "smcrd serves the network namespace of this command");
		break;
	case NETNS_OTHER: is_elsewhere(doctor); break;
	}
}
