/* SPDX-License-Identifier: MIT */
#include "cli/smcr-run/unit_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_TEXT (1u << 20)

#define PROPERTIES                                                                                 \
	"LoadState,ExecStart,ExecCondition,ExecStartPre,ExecStartPost,ExecReload,ExecStop,"        \
	"ExecStopPost,Environment,EnvironmentFiles,UnsetEnvironment,"                              \
	"RestrictAddressFamilies,"                                                                 \
	"SystemCallFilter,PrivateNetwork,NetworkNamespacePath,RootDirectory,RootImage,"            \
	"TemporaryFileSystem,InaccessiblePaths,NoExecPaths,ExecPaths,ProtectHome,PrivateTmp,"      \
	"AppArmorProfile,SELinuxContext"

static void become_systemctl(const char *name, int out)
{
	int null = open("/dev/null", O_RDWR);
	if (dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
	    dup2(null, STDIN_FILENO) < 0)
		_exit(127);
	setenv("LC_ALL", "C", 1);
	execlp("systemctl", "systemctl", "--no-pager", "show", "-p", PROPERTIES, "--", name,
	       (char *)NULL);
	_exit(127);
}

/* @return number of bytes, or -1: cannot read, or the text does not fit */
static ssize_t read_all(int fd, char *buf, size_t size)
{
	size_t len = 0;
	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);
		if (n <= 0)
			return n < 0 ? -1 : (ssize_t)len;
		len += (size_t)n;
	}
	return -1;
}

static ssize_t ask_systemctl(const char *name, char *buf, size_t size)
{
	int ends[2], status;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		become_systemctl(name, ends[1]);
	close(ends[1]);
	ssize_t len = pid < 0 ? -1 : read_all(ends[0], buf, size);
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return -1;
	return len;
}

bool unit_state_read(const char *name, struct unit_state *ret_state)
{
	struct unit_state state = { .text = calloc(1, MAX_TEXT) };
	ssize_t len = -1;
	*ret_state = (struct unit_state){ 0 };
	/* As sd_booted(3). */
	if (state.text && access("/run/systemd/system", F_OK) == 0)
		len = ask_systemctl(name, state.text, MAX_TEXT - 1);
	if (len > 0) {
		state.len = (size_t)len;
		for (size_t i = 0; i < state.len; i++)
			if (state.text[i] == '\n')
				state.text[i] = '\0';
	}
	if (len <= 0 || strcmp(unit_state_get(&state, "LoadState"), "not-found") == 0) {
		free(state.text);
		return false;
	}
	*ret_state = state;
	return true;
}

void unit_state_free(struct unit_state *state)
{
	free(state->text);
	*state = (struct unit_state){ 0 };
}

const char *unit_state_get(const struct unit_state *state, const char *property)
{
	const size_t name_len = strlen(property);
	for (size_t at = 0; at < state->len; at += strlen(state->text + at) + 1) {
		const char *line = state->text + at;
		if (strncmp(line, property, name_len) == 0 && line[name_len] == '=')
			return line + name_len + 1;
	}
	return "";
}

bool unit_state_is_on(const struct unit_state *state, const char *property)
{
	const char *value = unit_state_get(state, property);
	return *value && strcmp(value, "no") != 0;
}

enum unit_list unit_state_list(const struct unit_state *state, const char *property,
			       const char **ret_words)
{
	const char *value = unit_state_get(state, property);
	*ret_words = *value == '~' ? value + 1 : value;
	if (!*value)
		return UNIT_LIST_NONE;
	return *value == '~' ? UNIT_LIST_FORBIDS : UNIT_LIST_ALLOWS;
}

/* @param words  is moved behind the word. @return the word's length; 0: there is none */
static size_t next_word(const char **words, const char **ret_word)
{
	*ret_word = *words + strspn(*words, " ");
	size_t len = strcspn(*ret_word, " ");
	*words = *ret_word + len;
	return len;
}

bool unit_words_have(const char *words, const char *word)
{
	const char *at;
	while (next_word(&words, &at) > 0)
		/* System calls may have an error behind them: "bpf:EPERM". */
		if (strcspn(at, ": ") == strlen(word) && strncmp(at, word, strlen(word)) == 0)
			return true;
	return false;
}

static bool is_above(const char *dir, size_t len, const char *path)
{
	while (len > 0 && dir[len - 1] == '/')
		len--;
	return strncmp(dir, path, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool unit_words_cover(const char *words, const char *path)
{
	const char *at;
	while (next_word(&words, &at) > 0) {
		const char *dir = at + strspn(at, "-+");
		if (*dir == '/' && is_above(dir, strcspn(dir, ": "), path))
			return true;
	}
	return false;
}
