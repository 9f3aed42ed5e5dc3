/* SPDX-License-Identifier: MIT */
#include "daemon/host/log.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <syslog.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#include "daemon/host/log_writer.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

static int max_level = LOG_INFO;
static bool to_journal, to_syslog, to_starter, with_times;

/* systemd.exec(5): JOURNAL_STREAM is "device:inode" of the stream to the journal. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(2, &st) == 0 &&
	       st.st_dev == dev && st.st_ino == ino;
}

void log_open(int level, bool detached)
{
	max_level = level;
	to_journal = detached || stderr_is_journal();
	to_syslog = to_journal && access(JOURNAL_SOCKET, F_OK) != 0;
	with_times = !to_journal;
	if (to_syslog)
		openlog("smcrd", LOG_PID, LOG_DAEMON);
}

bool log_is_lost(void)
{
	return to_syslog && access(_PATH_LOG, F_OK) != 0;
}

void log_set_level(int level)
{
	max_level = level;
}

void log_tell_starter(bool tell)
{
	to_starter = tell;
}

static const char *level_name(int priority)
{
	switch (priority) {
	case LOG_EMERG:
	case LOG_ALERT:
	case LOG_CRIT: return "critical";
	case LOG_ERR: return "error";
	case LOG_WARNING: return "warning";
	case LOG_NOTICE: return "notice";
	case LOG_INFO: return "info";
	default: return "debug";
	}
}

/* The local time as smcrctl shows that of events, and a space. "": the journal or syslog notes the
 * time, or smcrd has not opened its log yet. */
static void put_time(char *text, size_t len)
{
	struct timespec now;
	struct tm tm;
	size_t n;
	*text = '\0';
	if (!with_times || clock_gettime(CLOCK_REALTIME, &now) < 0 ||
	    !localtime_r(&now.tv_sec, &tm))
		return;
	n = strftime(text, len, "%F %T", &tm);
	snprintf(text + n, len - n, ".%03ld ", now.tv_nsec / 1000000);
}

static void print_line(const char *kind, const char *line)
{
	char when[48];
	put_time(when, sizeof(when));
	fprintf(stderr, "%ssmcrd: %s: %s\n", when, kind, line);
}

/* ---- the journal, or syslog in its place ---- */

#define MESSAGE "MESSAGE="

static void write_now(int priority, const struct iovec *fields, int num)
{
	if (to_syslog) {
		syslog(priority, "%s", (const char *)fields[0].iov_base + strlen(MESSAGE));
		return;
	}
	struct iovec all[LOG_MAX_FIELDS + 2];
	char level[] = "PRIORITY=0";
	level[sizeof(level) - 2] = (char)('0' + priority);
	all[0] = fields[0];
	all[1] = (struct iovec){ level, sizeof(level) - 1 };
	memcpy(all + 2, fields + 1, (size_t)(num - 1) * sizeof(fields[0]));
	sd_journal_sendv(all, num + 1);
}

/* @param num  at most LOG_MAX_FIELDS + 1 */
static void to_host(int priority, const struct iovec *fields, int num)
{
	if (!log_writer_put(priority, fields, num))
		write_now(priority, fields, num);
}

static struct iovec field(char *text, size_t len, const char *name, const char *value)
{
	int n = snprintf(text, len, "%s=%s", name, value);
	return (struct iovec){ text, (size_t)n < len ? (size_t)n : len - 1 };
}

int log_start_writer(void)
{
	return to_journal ? log_writer_start(write_now) : 0;
}

void log_stop_writer(void)
{
	log_writer_stop();
}

/* ---- lines ---- */

void log_messagev(int priority, const char *format, va_list args)
{
	char line[1024 + sizeof(MESSAGE)] = MESSAGE;
	char *message = line + strlen(MESSAGE);
	if (priority > max_level)
		return;
	vsnprintf(message, sizeof(line) - strlen(MESSAGE), format, args);
	const struct iovec whole = { line, strlen(line) };
	if (to_journal)
		to_host(priority, &whole, 1);
	if (!to_journal || (to_starter && priority <= LOG_WARNING))
		print_line(level_name(priority), message);
}

void log_message(int priority, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_messagev(priority, format, args);
	va_end(args);
}

void log_fields(int priority, const char *line, const struct log_field *fields, size_t num_fields)
{
	char texts[LOG_MAX_FIELDS + 1][1024];
	struct iovec iov[LOG_MAX_FIELDS + 1];
	int n = 1;
	if (priority > max_level)
		return;
	if (!to_journal || to_syslog) {
		log_message(priority, "%s", line);
		return;
	}
	iov[0] = field(texts[0], sizeof(texts[0]), "MESSAGE", line);
	for (size_t i = 0; i < num_fields && i < LOG_MAX_FIELDS; i++)
		if (*fields[i].value) {
			iov[n] = field(texts[n], sizeof(texts[n]), fields[i].name, fields[i].value);
			n++;
		}
	to_host(priority, iov, n);
}

void log_trace(const char *category, const char *line)
{
	char text[1024], message[1100], name[64];
	snprintf(text, sizeof(text), "%s%s: %s", to_syslog ? "trace: " : "", category, line);
	if (!to_journal) {
		print_line("trace", text);
		return;
	}
	const struct iovec iov[] = {
		field(message, sizeof(message), "MESSAGE", text),
		field(name, sizeof(name), "TRACE", category),
	};
	to_host(LOG_DEBUG, iov, 2);
}

int log_level_parse(const char *name)
{
	for (int level = LOG_ERR; level <= LOG_DEBUG; level++)
		if (strcmp(name, level_name(level)) == 0)
			return level;
	return -1;
}
