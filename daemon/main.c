/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/host/config.h"
#include "daemon/host/log.h"
#include "daemon/options.h"

/* The command line wins over the file. */
static int apply_options(struct config *config, const struct options *options)
{
	if (options->socket_path) {
		free(config->socket_path);
		config->socket_path = strdup(options->socket_path);
		if (!config->socket_path)
			return -ENOMEM;
	}
	if (!options->num_rnics)
		return 0;
	for (size_t i = 0; i < config->num_rnics; i++)
		free(config->rnics[i]);
	config->num_rnics = 0;
	for (size_t i = 0; i < options->num_rnics; i++) {
		config->rnics[i] = strdup(options->rnics[i]);
		if (!config->rnics[i])
			return -ENOMEM;
		config->num_rnics++;
	}
	return 0;
}

/*
 * Go to the background: the parent stays until the daemon serves or has failed, and exits with its
 * status, so that whoever started it knows.
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

int main(int argc, char **argv)
{
	struct options options;
	struct config config;
	char text[DAEMON_ERROR_LEN];
	int status = options_parse(argc, argv, &options);
	if (status >= 0)
		return status;
	if (config_load(options.config_path, &config, text) < 0) {
		fprintf(stderr, "smcrd: %s\n", text);
		return 1;
	}
	if (apply_options(&config, &options) < 0) {
		fprintf(stderr, "smcrd: out of memory\n");
		return 1;
	}
	int ready = options.foreground ? -1 : detach();
	log_open(config.log_level, ready >= 0);
	struct smcrd *smcrd;
	if (smcrd_new(&config, &smcrd, text) < 0) {
		log_message(LOG_ERR, "%s", text);
		if (ready >= 0)
			fprintf(stderr, "smcrd: %s\n", text);
		return 1;
	}
	if (ready >= 0)
		report_ready(ready);
	smcrd_run(smcrd);
	smcrd_free(smcrd);
	return 0;
}
