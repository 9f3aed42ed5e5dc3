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

void log_messagev(int priority, const char *format, va_list args)
{
	char line[1024];
	if (priority > max_level)
		return;
	vsnprintf(line, sizeof(line), format, args);
	if (to_syslog)
		syslog(priority, "%s", line);
	else if (to_journal)
		sd_journal_print(priority, "%s", line);
	if (!to_journal || (to_starter && priority <= LOG_WARNING))
		print_line(level_name(priority), line);
}

void log_message(int priority, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_messagev(priority, format, args);
	va_end(args);
}

static size_t put_field(char *text, size_t len, const char *name, const char *value)
{
	int n = snprintf(text, len, "%s=%s", name, value);
	return (size_t)n < len ? (size_t)n : len - 1;
}

void log_fields(int priority, const char *line, const struct log_field *fields, size_t num_fields)
{
	char texts[LOG_MAX_FIELDS + 2][1024];
	struct iovec iov[LOG_MAX_FIELDS + 2];
	const char level[] = { (char)('0' + priority), '\0' };
	size_t n = 2;
	if (priority > max_level)
		return;
	if (!to_journal || to_syslog) {
		log_message(priority, "%s", line);
		return;
	}
	iov[0].iov_len = put_field(texts[0], sizeof(texts[0]), "MESSAGE", line);
	iov[1].iov_len = put_field(texts[1], sizeof(texts[1]), "PRIORITY", level);
	for (size_t i = 0; i < num_fields && i < LOG_MAX_FIELDS; i++)
		if (*fields[i].value) {
			iov[n].iov_len = put_field(texts[n], sizeof(texts[n]), fields[i].name,
						   fields[i].value);
			n++;
		}
	for (size_t i = 0; i < n; i++)
		iov[i].iov_base = texts[i];
	sd_journal_sendv(iov, (int)n);
}

void log_trace(const char *category, const char *line)
{
	char text[1024];
	snprintf(text, sizeof(text), "%s: %s", category, line);
	if (to_syslog)
		syslog(LOG_DEBUG, "trace: %s", text);
	else if (to_journal)
		sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", LOG_DEBUG, "TRACE=%s", category,
				NULL);
	else
		print_line("trace", text);
}

int log_level_parse(const char *name)
{
	for (int level = LOG_ERR; level <= LOG_DEBUG; level++)
		if (strcmp(name, level_name(level)) == 0)
			return level;
	return -1;
}
