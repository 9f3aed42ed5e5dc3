/* SPDX-License-Identifier: MIT */
/*
 * Views in parts. A view with possibly many rows shows a few at a time, so that no request takes
 * long and no reply is large. The caller goes on where the part before ended. That place is the
 * number of the last row: numbers only grow, so no row is left out or shown twice when other rows
 * come and go. Rows that a filter leaves out are limited too, to about a thousand: a part may have
 * no row and still not be the last one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/control/internal.h"

#define ROWS_A_PAGE  64
#define LOOKS_A_PAGE 1024 /* rows that a filter leaves out take some time too */

static bool wrong(struct refusal *refusal)
{
	refuse(refusal, EINVAL, "bad-parameter",
	       "\"after\" is none of this view's places: give what \"next\" was in the reply "
	       "before");
	refusal->parameter = "after";
	return false;
}

bool page_begin(const struct page *page, const char *const *sections, size_t num_sections,
		size_t *ret_section, uint64_t *ret_number, struct refusal *refusal)
{
	char place[PAGE_PLACE_LEN];
	*ret_section = 0;
	*ret_number = 0;
	if (!page->after)
		return true;
	for (size_t i = 0; i < num_sections; i++) {
		uint64_t number;
		size_t len = strlen(sections[i]);
		if (strncmp(page->after, sections[i], len) != 0 ||
		    sscanf(page->after + len, ":%" SCNu64, &number) != 1)
			continue;
		/* Accept a place only in the form of page_add(). */
		snprintf(place, sizeof(place), "%s:%" PRIu64, sections[i], number);
		if (strcmp(place, page->after) != 0)
			continue;
		*ret_section = i;
		*ret_number = number;
		return true;
	}
	return wrong(refusal);
}

void page_end(struct page *page, const char *section, uint64_t number)
{
	snprintf(page->next, sizeof(page->next), "%s:%" PRIu64, section, number);
}

bool page_skip(struct page *page, const char *section, uint64_t number)
{
	if (++page->looked < LOOKS_A_PAGE)
		return true;
	page_end(page, section, number);
	return false;
}

bool page_add(struct page *page, json_t *list, json_t *row, const char *section, uint64_t number)
{
	if (json_array_append_new(list, row) < 0)
		page->incomplete = true;
	if (++page->rows < ROWS_A_PAGE)
		return page_skip(page, section, number);
	page_end(page, section, number);
	return false;
}
