/* SPDX-License-Identifier: MIT */
/* Giving up files by Landlock. Each test uses a process of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/confine.h"
#include "daemon/host/landlock.h"
#include "tests/lib/child.h"

static char top[] = "/tmp/smcrd-landlock-XXXXXX";

/* A path below the test's directory. @return valid until the fourth call after this one */
static const char *at(const char *name)
{
	static char paths[4][256];
	static unsigned int next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	return path;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* conf/ has the configuration, linked/ a part of the configuration, run/ the socket; other/ is not
 * smcrd's. */
static int setup(void **state)
{
	static const char *const directories[] = { "conf", "conf/smcrd.conf.d", "linked", "run",
						   "other" };
	(void)state;
	strcpy(strrchr(top, '-'), "-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++)
		assert_int_equal(mkdir(at(directories[i]), 0755), 0);
	write_file(at("conf/smcrd.conf"), "memory = 64M\n");
	write_file(at("linked/20.conf"), "max_links = 2\n");
	write_file(at("other/secret"), "x");
	assert_int_equal(symlink(at("linked/20.conf"), at("conf/smcrd.conf.d/20.conf")), 0);
	return 0;
}

static int teardown(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

static bool can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The file is there, but cannot be opened. */
static bool is_refused(const char *path, int flags)
{
	return !can_open(path, flags) && errno == EACCES;
}

static bool can_bind(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
	close(fd);
	return bound;
}

static bool can_run(const char *program)
{
	int result = -1;
	pid_t pid = fork();
	if (pid == 0) {
		execl(program, program, (char *)NULL);
		_exit(1);
	}
	return waitpid(pid, &result, 0) == pid && result == 0;
}

static void only_with_landlock(void)
{
	struct landlock landlock;
	if (landlock_begin(&landlock) < 0)
		skip();
	close(landlock.fd);
}

/* As after privileges_drop(): the process cannot gain privileges. */
static bool cannot_gain(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* ---- the kernel's restriction ---- */

static bool begin(struct landlock *landlock)
{
	return cannot_gain() && landlock_begin(landlock) == 0 && landlock->abi >= 1;
}

static bool reads_what_is_allowed(void)
{
	struct landlock landlock;
	int before = open(at("other/secret"), O_RDWR | O_CLOEXEC);
	char byte;
	if (!begin(&landlock) || landlock_allow(&landlock, at("conf"), LANDLOCK_READ) < 0 ||
	    landlock_enforce(&landlock) < 0)
		return false;
	return can_open(at("conf/smcrd.conf"), O_RDONLY) &&
	       can_open(at("conf/smcrd.conf.d"), O_RDONLY | O_DIRECTORY) &&
	       is_refused(at("conf/smcrd.conf"), O_WRONLY) &&
	       is_refused(at("conf/new"), O_WRONLY | O_CREAT) &&
	       unlink(at("conf/smcrd.conf")) < 0 && errno == EACCES &&
	       is_refused(at("other/secret"), O_RDONLY) && is_refused(top, O_RDONLY) &&
	       !can_run("/bin/true") && read(before, &byte, 1) == 1 && byte == 'x';
}

static void reading(void **state)
{
	(void)state;
	only_with_landlock();
	assert_true(can_run("/bin/true"));
	assert_succeeds(reads_what_is_allowed);
}

static bool owns_a_directory(void)
{
	struct landlock landlock;
	if (!begin(&landlock) || landlock_allow(&landlock, at("run"), LANDLOCK_OWN) < 0 ||
	    landlock_enforce(&landlock) < 0)
		return false;
	return can_open(at("run/new"), O_WRONLY | O_CREAT | O_EXCL) &&
	       can_open(at("run/file"), O_RDWR | O_CREAT | O_TRUNC) &&
	       rename(at("run/new"), at("run/file")) == 0 && can_bind(at("run/socket")) &&
	       unlink(at("run/socket")) == 0 && unlink(at("run/file")) == 0 &&
	       mkdir(at("run/directory"), 0755) < 0 && errno == EACCES &&
	       symlink("/", at("run/link")) < 0 && errno == EACCES && !can_bind(at("other/socket"));
}

static void owning(void **state)
{
	(void)state;
	only_with_landlock();
	assert_succeeds(owns_a_directory);
}

static bool writes_to_a_device(void)
{
	struct landlock landlock;
	if (!begin(&landlock) || landlock_allow(&landlock, "/dev/null", LANDLOCK_DEVICE) < 0 ||
	    landlock_allow(&landlock, at("nowhere"), LANDLOCK_READ) != -ENOENT ||
	    landlock_enforce(&landlock) < 0)
		return false;
	return can_open("/dev/null", O_RDWR) && is_refused("/dev/zero", O_RDONLY);
}

static void devices(void **state)
{
	(void)state;
	only_with_landlock();
	assert_succeeds(writes_to_a_device);
}

static void *look(void *arg)
{
	*(bool *)arg = is_refused(at("other/secret"), O_RDONLY);
	return NULL;
}

static bool restricts_later_threads(void)
{
	struct landlock landlock;
	pthread_t thread;
	bool refused = false;
	if (!begin(&landlock) || landlock_enforce(&landlock) < 0 ||
	    pthread_create(&thread, NULL, look, &refused) != 0)
		return false;
	pthread_join(thread, NULL);
	return refused;
}

static void threads_that_come_later(void **state)
{
	(void)state;
	only_with_landlock();
	assert_succeeds(restricts_later_threads);
}

static bool signals_itself_only(void)
{
	struct landlock landlock;
	if (!begin(&landlock))
		return false;
	const int abi = landlock.abi;
	if (landlock_enforce(&landlock) < 0 || kill(getpid(), 0) < 0)
		return false;
	return abi < 6 || (kill(getppid(), 0) < 0 && errno == EPERM);
}

static void signals(void **state)
{
	(void)state;
	only_with_landlock();
	assert_succeeds(signals_itself_only);
}

/* ---- the files that smcrd keeps ---- */

/* With sanitizers confine() does not restrict the process, as they open files themselves. */
static void only_where_confined(void)
{
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	only_with_landlock();
}

/* @return as confine() */
static int confine_to_test(char ret_text[CONFINE_TEXT])
{
	struct config_notes errors = { .num = 0 };
	struct config config;
	struct config_source source = { .path = at("conf/smcrd.conf"),
					.socket_path = at("run/smcrd.sock") };
	if (!cannot_gain() || config_load(&source, &config, &errors) < 0)
		return -EINVAL;
	int r = confine(&source, &config, ret_text);
	config_free(&config);
	return r;
}

static bool confined(void)
{
	char text[CONFINE_TEXT];
	return confine_to_test(text) == 0 && strstr(text, "files restricted by Landlock (ABI ");
}

static bool gives_other_files_up(void)
{
	return confined() && is_refused(at("other/secret"), O_RDONLY) &&
	       is_refused(at("conf/smcrd.conf"), O_WRONLY) && is_refused("/etc/passwd", O_WRONLY) &&
	       is_refused("/usr/smcrd-test", O_WRONLY | O_CREAT) &&
	       is_refused("/dev/zero", O_RDWR) && !can_run("/bin/true");
}

static void other_files_are_given_up(void **state)
{
	(void)state;
	only_where_confined();
	assert_succeeds(gives_other_files_up);
}

/* A reload reads files that were written or added since. */
static bool reads_the_configuration_again(void)
{
	struct config_notes errors = { .num = 0 };
	struct config config;
	struct config_source source = { .path = at("conf/smcrd.conf") };
	int ready[2], go[2];
	char byte;
	if (pipe(ready) < 0 || pipe(go) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) { /* an operator's process */
		if (read(ready[0], &byte, 1) != 1)
			_exit(1);
		write_file(at("conf/new"), "memory = 65M\n");
		write_file(at("conf/smcrd.conf.d/10.conf"), "max_links = 3\nskip_seconds = 7\n");
		rename(at("conf/new"), at("conf/smcrd.conf"));
		_exit(write(go[1], "g", 1) != 1);
	}
	if (!confined() || write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
		return false;
	if (config_load(&source, &config, &errors) < 0)
		return false;
	return config.engine.memory_budget == 65u << 20 && config.engine.max_links == 2 &&
	       config.skip_seconds == 7;
}

static void a_reload_goes_on_working(void **state)
{
	(void)state;
	only_where_confined();
	assert_succeeds(reads_the_configuration_again);
}

static bool has_what_it_needs(void)
{
	if (!confined())
		return false;
	/* the socket and files beside it, /proc and /sys, users, drivers */
	return can_bind(at("run/smcrd.sock")) && can_open("/dev/null", O_RDWR) &&
	       can_open("/dev/urandom", O_RDONLY) && can_open("/", O_RDONLY | O_DIRECTORY) &&
	       can_open("/proc/1/comm", O_RDONLY) &&
	       can_open("/proc/thread-self/net/unix", O_RDONLY) &&
	       can_open("/sys/class/net", O_RDONLY | O_DIRECTORY) && getpwnam("root") &&
	       getgrnam("root") && dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
}

static void files_that_smcrd_needs_stay(void **state)
{
	(void)state;
	only_where_confined();
	assert_succeeds(has_what_it_needs);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(reading),
		TEST(owning),
		TEST(devices),
		TEST(threads_that_come_later),
		TEST(signals),
		TEST(other_files_are_given_up),
		TEST(a_reload_goes_on_working),
		TEST(files_that_smcrd_needs_stay),
	};
	return cmocka_run_group_tests_name("landlock", tests, NULL, NULL);
}
