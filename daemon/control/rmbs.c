/* SPDX-License-Identifier: MIT */
/* RMBs and send buffers: how much of the registered memory is in use, and by which users. */
#include "daemon/conns/view.h"
#include "daemon/control/views.h"
#include "daemon/smcr/view.h"

/* Checking a slab takes time for each connection of its group, and its row for each owner: so parts
 * may have fewer rows. */
#define CONNS_A_ROW  512
#define OWNERS_A_ROW 16

static const char *const sections[] = { "rmb" };

struct part {
	struct page *page;
	json_t *list;
	uint32_t linkgroup; /* of this group only; 0: of all */
};

/* A place is a group and a number in the group. */
static uint64_t place_number(uint32_t group, uint32_t number)
{
	return (uint64_t)group << 32 | number;
}

/* Callers do not see where the memory of other users is. */
static json_t *owners_of(const struct page *page, const struct smcr_rmb_view *view)
{
	if (!page->administrator)
		return json_null();
	json_t *owners = json_array();
	for (uint32_t i = 0; i < view->num_owners; i++)
		json_array_append_new(owners,
				      json_integer((json_int_t)conns_number(view->owners[i])));
	return owners;
}

static bool add_rmb(void *arg, const struct smcr_rmb_view *view)
{
	const struct part *part = arg;
	if (part->linkgroup && part->linkgroup < view->lgr_id)
		return false; /* groups come in order: that was the last slab of it */
	json_t *row =
		json_pack("{s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "linkgroup",
			  (json_int_t)view->lgr_id, "number", (json_int_t)view->number, "kind",
			  view->is_rmb ? "rmb" : "send", "state", view->state, "element_size",
			  (json_int_t)view->element_size, "elements", (json_int_t)view->elements,
			  "elements_used", (json_int_t)view->used, "size_bytes",
			  (json_int_t)view->element_size * view->elements, "filled_bytes",
			  (json_int_t)view->fill, "links", (json_int_t)view->registered, "owners",
			  owners_of(part->page, view));
	part->page->rows += view->lgr_num_conns / CONNS_A_ROW + view->num_owners / OWNERS_A_ROW;
	return page_add(part->page, part->list, row, sections[0],
			place_number(view->lgr_id, view->number));
}

json_t *control_show_rmbs(struct control *control, struct page *page, struct refusal *refusal)
{
	size_t section;
	uint64_t after;
	if (!page_begin(page, sections, 1, &section, &after, refusal))
		return NULL;
	struct part part = { page, json_array(), page->params->linkgroup };
	struct smcr_rmb_place place = { (uint32_t)(after >> 32), (uint32_t)after };
	if (place.lgr_id < part.linkgroup)
		place = (struct smcr_rmb_place){ .lgr_id = part.linkgroup };
	smcr_engine_walk_rmbs(control->engine, place, add_rmb, &part);
	return part.list;
}
