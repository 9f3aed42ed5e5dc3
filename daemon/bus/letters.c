/* SPDX-License-Identifier: MIT */
#include "daemon/bus/letters.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utlist.h>

struct letter *letter_new(enum letter_kind kind)
{
	struct letter *letter = calloc(1, sizeof(*letter));
	if (letter)
		letter->kind = kind;
	return letter;
}

void letter_free(struct letter *letter)
{
	if (!letter)
		return;
	json_decref(letter->json);
	free(letter->text);
	free(letter->groups);
	free(letter);
}

int box_open(struct box *box)
{
	box->letters = NULL;
	box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (box->fd < 0)
		return -errno;
	pthread_mutex_init(&box->lock, NULL);
	return 0;
}

void box_close(struct box *box)
{
	struct letter *letter, *next;
	if (box->fd < 0)
		return;
	DL_FOREACH_SAFE (box->letters, letter, next)
		letter_free(letter);
	box->letters = NULL;
	close(box->fd);
	box->fd = -1;
	pthread_mutex_destroy(&box->lock);
}

void box_poke(const struct box *box)
{
	eventfd_write(box->fd, 1);
}

void box_heard(const struct box *box)
{
	eventfd_t count;
	eventfd_read(box->fd, &count);
}

void box_put(struct box *box, struct letter *letter)
{
	pthread_mutex_lock(&box->lock);
	DL_APPEND(box->letters, letter);
	pthread_mutex_unlock(&box->lock);
	box_poke(box);
}

struct letter *box_take(struct box *box)
{
	pthread_mutex_lock(&box->lock);
	struct letter *letter = box->letters;
	if (letter)
		DL_DELETE(box->letters, letter);
	pthread_mutex_unlock(&box->lock);
	return letter;
}

struct letter *box_take_kind(struct box *box, enum letter_kind kind)
{
	struct letter *letter;
	pthread_mutex_lock(&box->lock);
	DL_SEARCH_SCALAR(box->letters, letter, kind, kind);
	if (letter)
		DL_DELETE(box->letters, letter);
	pthread_mutex_unlock(&box->lock);
	return letter;
}
