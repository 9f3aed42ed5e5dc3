/* SPDX-License-Identifier: MIT */
/* HTTP requests for metrics. More bytes behind a request that was answered do not change the
 * answer. A request that is not complete is not answered before its end or its limit. */
#include "daemon/control/scrape_request.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	bool head, before_head;
	enum scrape_request whole = scrape_request_read(text, size, &head);
	must(whole != SCRAPE_INCOMPLETE || size < SCRAPE_MAX_REQUEST);
	must(whole != SCRAPE_TOO_LONG || size >= SCRAPE_MAX_REQUEST);
	for (size_t len = 0; len < size; len++) {
		enum scrape_request before = scrape_request_read(text, len, &before_head);
		must(before == SCRAPE_INCOMPLETE || (before == whole && before_head == head));
	}
	return 0;
}
