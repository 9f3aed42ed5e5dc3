/* SPDX-License-Identifier: MIT */
#include "daemon/host/confine.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/host/landlock.h"

#define RDMA_DEVICES "/dev/infiniband"

/* Sanitizers read and write files when the process ends. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* Places that stay readable whatever the configuration says. */
static const char *const read_always[] = {
	"/usr", /* libraries, drivers of RDMA devices, time zones */
	"/lib",
	"/lib64",
	"/etc", /* users and groups (their files are replaced, not written); drivers; time zone */
	"/proc",
	"/sys",
	"/dev/urandom", /* libjansson seeds its hash tables from it */
	/* other sources of users and groups */
	"/var/lib/sss",
	"/var/lib/extrausers",
	"/run/systemd/userdb",
};

/* Files that may be symbolic links to other directories. */
static const char *const looked_up[] = { "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
					 "/etc/localtime" };

struct building {
	struct landlock landlock;
	int error; /* the first error */
};

/* Allow a place. One that does not exist or cannot be reached is passed over. */
static void allow(struct building *building, const char *path, enum landlock_use use)
{
	int r = landlock_allow(&building->landlock, path, use);
	if (r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -ELOOP)
		return;
	if (r < 0 && building->error == 0)
		building->error = r;
}

static void allow_directory_of(struct building *building, const char *path, enum landlock_use use)
{
	char copy[PATH_MAX];
	snprintf(copy, sizeof(copy), "%s", path);
	allow(building, dirname(copy), use);
}

/* Allow the directory of a file that a reload reads again, since the file may be replaced before;
 * and if the file is a symbolic link, the directory of its target. */
static void allow_file_read_again(void *arg, const char *path)
{
	char *real = realpath(path, NULL);
	allow_directory_of(arg, path, LANDLOCK_READ);
	if (real)
		allow_directory_of(arg, real, LANDLOCK_READ);
	free(real);
}

/* Allow the directories of the libraries that are loaded now: drivers that are loaded later lie
 * there or below. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	if (strchr(info->dlpi_name, '/'))
		allow_directory_of(arg, info->dlpi_name, LANDLOCK_READ);
	return 0;
}

static bool names_verbs_device(const struct config *config)
{
	for (size_t i = 0; i < config->num_rnics; i++)
		if (!strncmp(config->rnics[i], "verbs:", 6))
			return true;
	return config->num_rnics == 0;
}

/* Allow RDMA devices, also those that come later, so their directory has to exist. Root makes it. A
 * user other than root cannot, and gets all of /dev, where it may open few devices. */
static void allow_devices(struct building *building, const struct config *config)
{
	const bool is_root = geteuid() == 0;
	if (is_root && names_verbs_device(config) && mkdir(RDMA_DEVICES, 0755) == 0)
		chmod(RDMA_DEVICES, 0755); /* despite the umask: every user may use RDMA devices */
	if (is_root || access(RDMA_DEVICES, F_OK) == 0)
		allow(building, RDMA_DEVICES, LANDLOCK_DEVICE);
	else
		allow(building, "/dev", LANDLOCK_DEVICE);
	allow(building, "/dev/null", LANDLOCK_DEVICE);
}

static void allow_all(struct building *building, const struct config_source *source,
		      const struct config *config)
{
	allow(building, "/", LANDLOCK_LIST); /* libbpf opens it */
	for (size_t i = 0; i < sizeof(read_always) / sizeof(read_always[0]); i++)
		allow(building, read_always[i], LANDLOCK_READ);
	for (size_t i = 0; i < sizeof(looked_up) / sizeof(looked_up[0]); i++)
		allow_file_read_again(building, looked_up[i]);
	config_each_file(source, allow_file_read_again, building);
	dl_iterate_phdr(allow_library, building);
	allow_devices(building, config);
	allow_directory_of(building, config->socket_path, LANDLOCK_OWN);
	if (*config->metrics_socket)
		allow_directory_of(building, config->metrics_socket, LANDLOCK_OWN);
}

static int give_up_files(const struct config_source *source, const struct config *config,
			 int *ret_abi)
{
	struct building building = { .error = 0 };
	int r = landlock_begin(&building.landlock);
	if (r < 0)
		return r;
	allow_all(&building, source, config);
	*ret_abi = building.landlock.abi;
	if (building.error == 0)
		return landlock_enforce(&building.landlock);
	close(building.landlock.fd);
	return building.error;
}

static const char *why_not(int error)
{
	switch (error) {
	case -ENOSYS: return "the kernel has no Landlock";
	case -EOPNOTSUPP: return "Landlock is switched off (lsm= of the kernel's command line)";
	case -ECANCELED: return "this build has sanitizers";
	case -EPERM: return "a filter of system calls refuses Landlock";
	default: return strerror(-error);
	}
}

int confine(const struct config_source *source, const struct config *config,
	    char ret_text[CONFINE_TEXT])
{
	int abi = 0;
	int r = SANITIZED ? -ECANCELED : give_up_files(source, config, &abi);
	if (r < 0)
		snprintf(ret_text, CONFINE_TEXT, "files not restricted: %s", why_not(r));
	else
		snprintf(ret_text, CONFINE_TEXT, "files restricted by Landlock (ABI %d)", abi);
	return r;
}
