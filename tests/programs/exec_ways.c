/* SPDX-License-Identifier: MIT */
/*
 * A program that starts another program in each way that exists, with an environment that it makes
 * itself.
 *
 *   exec_ways WAY PROGRAM [ARGUMENT] [NAME=VALUE]..
 *
 * PROGRAM gets ARGUMENT unless that is "-". Its environment is NAME=VALUE.. and nothing else.
 *   execve execv execvp execvpe execl execlp execle fexecve execveat    become PROGRAM
 *   posix_spawn posix_spawnp     start it
 *   path-only                    fexecve() of a descriptor that cannot be read
 *   none                         execve() with NULL for the environment
 *   large                        execve() with 20000 more variables
 *   vfork-large                  the same after vfork()
 *   vfork                        several threads start it at once, repeatedly, by vfork() and
 * execve() handler                      execve() in a signal handler, on a stack of its own
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS  25
#define LARGE   20000

static char *program, *argument;
static char *argv_of_program[3];
static char **variables;

static int wait_for(pid_t pid)
{
	int status;
	if (waitpid(pid, &status, 0) != pid)
		return 99;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int spawn(int (*function)(pid_t *, const char *, const posix_spawn_file_actions_t *,
				 const posix_spawnattr_t *, char *const[], char *const[]))
{
	pid_t pid;
	errno = 77;
	int rc = function(&pid, program, NULL, NULL, argv_of_program, variables);
	if (errno != 77)
		return 98;
	if (rc == 0)
		return wait_for(pid);
	errno = rc;
	return -1;
}

static char **large_environment(void)
{
	static char text[LARGE][16];
	static char *all[LARGE + 64];
	size_t count = 0;
	for (; variables[count] && count < 60; count++)
		all[count] = variables[count];
	for (size_t i = 0; i < LARGE; i++) {
		snprintf(text[i], sizeof(text[i]), "V%zu=%zu", i, i);
		all[count++] = text[i];
	}
	return all;
}

static int vfork_and_exec(char **environment)
{
	pid_t pid = vfork();
	if (pid == 0) {
		execve(program, argv_of_program, environment);
		_exit(97);
	}
	return pid < 0 ? -1 : wait_for(pid);
}

static void *vfork_often(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		if (vfork_and_exec(variables) != 0)
			return arg;
	return NULL;
}

static int vfork_in_threads(void)
{
	pthread_t threads[THREADS];
	int failed = 0;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, vfork_often, &failed);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		failed += result != NULL;
	}
	return failed;
}

static void exec_now(int number)
{
	(void)number;
	execve(program, argv_of_program, variables);
}

static int exec_in_handler(void)
{
	static char room[32768];
	const stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };
	const struct sigaction action = { .sa_handler = exec_now, .sa_flags = SA_ONSTACK };
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	return -1;
}

static int start(const char *way)
{
	if (!strcmp(way, "execve"))
		return execve(program, argv_of_program, variables);
	if (!strcmp(way, "execv"))
		return execv(program, argv_of_program);
	if (!strcmp(way, "execvp"))
		return execvp(program, argv_of_program);
	if (!strcmp(way, "execvpe"))
		return execvpe(program, argv_of_program, variables);
	if (!strcmp(way, "execl"))
		return execl(program, program, argument, NULL);
	if (!strcmp(way, "execlp"))
		return execlp(program, program, argument, NULL);
	if (!strcmp(way, "execle"))
		return argument ? execle(program, program, argument, NULL, variables)
				: execle(program, program, NULL, variables);
	if (!strcmp(way, "fexecve"))
		return fexecve(open(program, O_RDONLY), argv_of_program, variables);
	if (!strcmp(way, "path-only"))
		return fexecve(open(program, O_PATH), argv_of_program, variables);
	if (!strcmp(way, "execveat"))
		return execveat(open("/", O_PATH), program + 1, argv_of_program, variables, 0);
	if (!strcmp(way, "posix_spawn"))
		return spawn(posix_spawn);
	if (!strcmp(way, "posix_spawnp"))
		return spawn(posix_spawnp);
	if (!strcmp(way, "none"))
		return execve(program, argv_of_program, NULL);
	if (!strcmp(way, "large"))
		return execve(program, argv_of_program, large_environment());
	if (!strcmp(way, "vfork-large"))
		return vfork_and_exec(large_environment());
	if (!strcmp(way, "vfork"))
		return vfork_in_threads();
	if (!strcmp(way, "handler"))
		return exec_in_handler();
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: exec_ways WAY PROGRAM [ARGUMENT] [NAME=VALUE]..\n");
		return 2;
	}
	program = argv[2];
	if (argc > 3 && strcmp(argv[3], "-") != 0)
		argument = argv[3];
	argv_of_program[0] = program;
	argv_of_program[1] = argument;
	variables = argv + (argc > 3 ? 4 : 3);
	environ = variables;
	int rc = start(argv[1]);
	if (rc < 0)
		printf("%s\n", strerrorname_np(errno));
	return rc < 0 ? 1 : rc;
}
