/* SPDX-License-Identifier: MIT */
/* The process: options, configuration, background, log. What smcrd does begins in daemon.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/check_readable.h"
#include "daemon/daemon.h"
#include "daemon/host/config.h"
#include "daemon/host/log.h"
#include "daemon/host/trace.h"
#include "daemon/options.h"

/* The unit names it: another start would be in vain while the other smcrd runs. */
#define EXIT_ANOTHER_SERVES 3

/*
 * Go to the background. The parent stays until the daemon serves or has failed, and exits with its
 * status, so that its caller knows. Standard error stays open until then, for warnings.
 * @return descriptor to write one byte to when ready (child), or does not return (parent)
 */
static int detach(void)
{
	int ready[2];
	if (pipe2(ready, O_CLOEXEC) < 0) {
		perror("smcrd: pipe");
		exit(1);
	}
	pid_t pid = fork();
	if (pid < 0) {
		perror("smcrd: fork");
		exit(1);
	}
	if (pid == 0) {
		close(ready[0]);
		setsid();
		return ready[1];
	}
	char byte;
	int status = 1;
	close(ready[1]);
	if (read(ready[0], &byte, 1) == 1)
		_exit(0);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	_exit(1);
}

static void report_ready(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		close(null);
	}
	if (write(fd, "", 1) == 1)
		close(fd);
	if (chdir("/") < 0)
		log_message(LOG_WARNING, "cannot change to the root directory: %s",
			    strerror(errno));
}

static void print_errors(const struct config_notes *errors)
{
	size_t kept = config_notes_kept(errors);
	for (size_t i = 0; i < kept; i++)
		fprintf(stderr, "smcrd: %s\n", config_note_text(errors, i));
	if (kept < errors->num)
		fprintf(stderr, "smcrd: and %zu more error%s\n", errors->num - kept,
			errors->num - kept == 1 ? "" : "s");
}

/* SIGHUP asks for a reload. Before smcrd can reload, it must not end the start. */
static void hold_hangup(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigprocmask(how, &set, NULL);
}

int main(int argc, char **argv)
{
	static struct options
		options; /* static: a thread may still read it when this function ends */
	struct config config;
	struct config_notes errors = { .num = 0 };
	char text[DAEMON_ERROR_LEN];
	hold_hangup(SIG_BLOCK);
	int status = options_parse(argc, argv, &options);
	if (status >= 0)
		return status;
	if (config_load(&options.source, &config, &errors) < 0) {
		print_errors(&errors);
		config_notes_free(&errors);
		return 1;
	}
	if (options.check_config) {
		config_free(&config);
		check_readable(&options.source);
		puts("OK");
		return 0;
	}
	int ready = options.foreground ? -1 : detach();
	log_open(config.log_level, ready >= 0);
	trace_set(config.engine.trace);
	log_tell_starter(ready >= 0);
	if (log_is_lost())
		log_message(LOG_WARNING, "neither the journal nor syslog runs, so nobody keeps the "
					 "log of smcrd; --foreground writes it to standard error");
	struct smcrd *smcrd;
	int error = smcrd_new(&config, &options.source, &smcrd, text);
	if (error) {
		log_message(LOG_ERR, "%s", text);
		return error == -EALREADY ? EXIT_ANOTHER_SERVES : 1;
	}
	hold_hangup(SIG_UNBLOCK);
	log_tell_starter(false);
	if (ready >= 0)
		report_ready(ready);
	error = log_start_writer();
	if (error)
		log_message(LOG_WARNING,
			    "smcrd has to wait where the journal takes no line: no thread: %s",
			    strerror(-error));
	smcrd_run(smcrd);
	smcrd_free(smcrd);
	log_stop_writer();
	return 0;
}
