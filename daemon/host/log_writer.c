/* SPDX-License-Identifier: MIT */
#include "daemon/host/log_writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <utlist.h>

#define LEFT_OUT "MESSAGE=lines of the log were left out, because nobody took them in time: "

struct line {
	struct line *prev, *next;
	size_t size;
	int priority, num;
	struct iovec fields[]; /* behind them their texts */
};

/* Protected by `lock`, but for `runs`, which belongs to the event loop, and `write`. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed, ended;
	pthread_t thread;
	log_writer_write *write;
	bool runs, ending, has_ended;
	struct line *lines;
	size_t bytes;          /* of all lines, with the one that is being written */
	unsigned int left_out; /* lines, and nothing has told so yet */
} writer = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- the thread, with the lock held */

static bool await_work(void)
{
	while (!writer.lines && !writer.left_out && !writer.ending)
		pthread_cond_wait(&writer.changed, &writer.lock);
	return writer.lines || writer.left_out;
}

static void write_first(void)
{
	struct line *line = writer.lines;
	DL_DELETE(writer.lines, line);
	pthread_mutex_unlock(&writer.lock);
	writer.write(line->priority, line->fields, line->num);
	pthread_mutex_lock(&writer.lock);
	writer.bytes -= line->size;
	free(line);
}

static void tell_left_out(void)
{
	char text[sizeof(LEFT_OUT) + 16];
	const int len = snprintf(text, sizeof(text), LEFT_OUT "%u", writer.left_out);
	const struct iovec field = { text, (size_t)len };
	writer.left_out = 0;
	pthread_mutex_unlock(&writer.lock);
	writer.write(LOG_WARNING, &field, 1);
	pthread_mutex_lock(&writer.lock);
}

static void *run(void *arg)
{
	pthread_mutex_lock(&writer.lock);
	while (await_work()) {
		if (writer.lines)
			write_first();
		else
			tell_left_out();
	}
	writer.has_ended = true;
	pthread_cond_signal(&writer.ended);
	pthread_mutex_unlock(&writer.lock);
	return arg;
}

/* ---- the event loop */

static struct line *copy_line(int priority, const struct iovec *fields, int num)
{
	size_t size = sizeof(struct line) + (size_t)num * sizeof(fields[0]);
	for (int i = 0; i < num; i++)
		size += fields[i].iov_len + 1;
	struct line *line = malloc(size);
	if (!line)
		return NULL;
	char *text = (char *)&line->fields[num];
	line->size = size;
	line->priority = priority;
	line->num = num;
	for (int i = 0; i < num; i++) {
		line->fields[i] = (struct iovec){ text, fields[i].iov_len };
		memcpy(text, fields[i].iov_base, fields[i].iov_len);
		text[fields[i].iov_len] = '\0';
		text += fields[i].iov_len + 1;
	}
	return line;
}

bool log_writer_put(int priority, const struct iovec *fields, int num)
{
	if (!writer.runs)
		return false;
	struct line *line = copy_line(priority, fields, num);
	pthread_mutex_lock(&writer.lock);
	if (line && writer.bytes + line->size <= LOG_WRITER_BYTES) {
		writer.bytes += line->size;
		DL_APPEND(writer.lines, line);
		line = NULL;
	} else {
		writer.left_out++;
	}
	pthread_cond_signal(&writer.changed);
	pthread_mutex_unlock(&writer.lock);
	free(line);
	return true;
}

int log_writer_start(log_writer_write *write)
{
	pthread_condattr_t attr;
	sigset_t all, before;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&writer.ended, &attr);
	pthread_condattr_destroy(&attr);
	writer.write = write;
	writer.ending = writer.has_ended = false;
	sigfillset(&all); /* signals are for the event loop */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&writer.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	writer.runs = error == 0;
	return -error;
}

void log_writer_stop(void)
{
	struct timespec end;
	int rc = 0;
	if (!writer.runs)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += LOG_WRITER_STOP_MS / 1000;
	pthread_mutex_lock(&writer.lock);
	writer.ending = true;
	pthread_cond_signal(&writer.changed);
	while (!writer.has_ended && rc == 0)
		rc = pthread_cond_timedwait(&writer.ended, &writer.lock, &end);
	const bool has_ended = writer.has_ended;
	pthread_mutex_unlock(&writer.lock);
	if (has_ended)
		pthread_join(writer.thread, NULL);
	else
		pthread_detach(writer.thread);
	writer.runs = false;
}
