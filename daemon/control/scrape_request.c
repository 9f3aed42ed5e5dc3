/* SPDX-License-Identifier: MIT */
#include "daemon/control/scrape_request.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX    300
#define METHOD_MAX  16
#define TARGET_MAX  256
#define VERSION_MAX 16

/* "GET /metrics?x HTTP/1.1" */
static enum scrape_request read_line(const char *line, bool *ret_head)
{
	char method[METHOD_MAX + 1], target[TARGET_MAX + 1], version[VERSION_MAX + 1];
	int end = 0;
	int n = sscanf(line, "%16[A-Z] %256[^ \t] %16[A-Z/0-9.]%n", method, target, version, &end);
	if (n != 3 || line[end] || strncmp(version, "HTTP/1.", 7) != 0)
		return SCRAPE_MALFORMED;
	*ret_head = !strcmp(method, "HEAD");
	if (!*ret_head && strcmp(method, "GET") != 0)
		return SCRAPE_OTHER_METHOD;
	target[strcspn(target, "?#")] = '\0';
	return strcmp(target, SCRAPE_PATH) ? SCRAPE_OTHER_PATH : SCRAPE_METRICS;
}

/* An empty line ends the headers; some write no CR. */
static bool has_ended(const char *data, size_t len)
{
	const char *crlf = memmem(data, len, "\r\n\r\n", 4), *lf = memmem(data, len, "\n\n", 2);
	return crlf || lf;
}

enum scrape_request scrape_request_read(const char *data, size_t len, bool *ret_head)
{
	char line[LINE_MAX];
	*ret_head = false;
	if (len > SCRAPE_MAX_REQUEST)
		len = SCRAPE_MAX_REQUEST;
	if (!has_ended(data, len))
		return len < SCRAPE_MAX_REQUEST ? SCRAPE_INCOMPLETE : SCRAPE_TOO_LONG;
	size_t line_len = (size_t)((const char *)memchr(data, '\n', len) - data);
	if (line_len > 0 && data[line_len - 1] == '\r')
		line_len--;
	if (line_len >= sizeof(line) || memchr(data, '\0', line_len))
		return SCRAPE_MALFORMED;
	memcpy(line, data, line_len);
	line[line_len] = '\0';
	return read_line(line, ret_head);
}
