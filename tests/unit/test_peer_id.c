/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/peer_id.h"
#include "tests/lib/proves.h"
#include "tests/lib/tries.h"

static void no_instance_repeats_its_predecessor(void **state)
{
	/* a clock that stands still, goes back, and passes 2^16 */
	static const int64_t steps[] = { 0, 1, -1, 65536, 0, 0, 2, -65536, -3 };
	uint64_t seconds = 1700000000;
	uint16_t previous = 0;
	bool known = false;
	(void)state;
	for (size_t i = 0; i < 1000; i++) {
		uint16_t instance = peer_id_next_instance(known, previous, seconds);
		if (known)
			assert_int_not_equal(instance, previous);
		previous = instance;
		known = true;
		seconds += (uint64_t)steps[i % (sizeof(steps) / sizeof(steps[0]))];
	}
	PROVES("PEER-2");
}

/* 1000 daemons use one file, one after the other: none has the peer ID of the one before. */
static void restarts_differ_through_the_file(void **state)
{
	static const uint8_t mac[SMCR_MAC_LEN] = { 2, 0, 0, 0, 0, 1 };
	char socket_path[] = "/tmp/smcrd-peer-id-XXXXXX", file[64];
	uint8_t previous[SMCR_PEER_ID_LEN], id[SMCR_PEER_ID_LEN];
	(void)state;
	int fd = mkstemp(socket_path);
	assert_true(fd >= 0);
	close(fd);
	snprintf(file, sizeof(file), "%s.instance", socket_path);
	peer_id_make(mac, socket_path, previous);
	for (int i = 0; i < 1000; i++) {
		peer_id_make(mac, socket_path, id);
		assert_memory_not_equal(id, previous, 2);
		assert_memory_equal(id + 2, mac, SMCR_MAC_LEN);
		memcpy(previous, id, sizeof(id));
	}
	unlink(file);
	unlink(socket_path);
	PROVES("PEER-2");
}

/* ---- the file, in a directory where others may write ---- */

struct place {
	char directory[32], socket_path[64], file[64], other[64];
};

static struct place place_make(void)
{
	struct place place = { .directory = "/tmp/smcrd-instance-XXXXXX" };
	assert_non_null(mkdtemp(place.directory));
	snprintf(place.socket_path, sizeof(place.socket_path), "%s/sock", place.directory);
	snprintf(place.file, sizeof(place.file), "%s/sock.instance", place.directory);
	snprintf(place.other, sizeof(place.other), "%s/other", place.directory);
	return place;
}

/* The directory must be empty then. */
static void place_remove(const struct place *place)
{
	unlink(place->file);
	unlink(place->other);
	assert_int_equal(rmdir(place->directory), 0);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void assert_text(const char *path, const char *expected)
{
	char text[64] = "";
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	size_t len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	assert_int_equal(len, strlen(expected));
	assert_string_equal(text, expected);
}

static void assert_remembered(const struct place *place, const uint8_t *id)
{
	char expected[8];
	snprintf(expected, sizeof(expected), "%02x%02x\n", id[0], id[1]);
	assert_text(place->file, expected);
}

static void links_are_not_followed(void **state)
{
	struct place place = place_make();
	char new_file[80];
	uint8_t id[SMCR_PEER_ID_LEN];
	(void)state;
	snprintf(new_file, sizeof(new_file), "%s.new", place.file);
	write_text(place.other, "precious\n");
	assert_int_equal(symlink(place.other, place.file), 0);
	assert_int_equal(symlink(place.other, new_file), 0);
	peer_id_make(NULL, place.socket_path, id);
	assert_text(place.other, "precious\n");
	assert_remembered(&place, id);
	place_remove(&place);
}

static void a_full_disk_leaves_the_file_as_it_was(void **state)
{
	static const rlim_t room[] = { 0, 2 };
	struct place place = place_make();
	struct rlimit before;
	uint8_t id[SMCR_PEER_ID_LEN];
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	write_text(place.file, "1234\n");
	for (size_t i = 0; i < sizeof(room) / sizeof(room[0]); i++) {
		TRIES("row %zu", i);
		const struct rlimit limit = { room[i], before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		peer_id_make(NULL, place.socket_path, id);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_text(place.file, "1234\n");
	}
	place_remove(&place);
}

/* A pipe would block a daemon that opens it for reading. */
static void other_things_than_the_file_are_replaced(void **state)
{
	static const char *const wrong[] = { "", "123", "12345\n", "-001\n", "0x12\n", " 123\n" };
	struct place place = place_make();
	uint8_t id[SMCR_PEER_ID_LEN];
	(void)state;
	assert_int_equal(mkfifo(place.file, 0600), 0);
	peer_id_make(NULL, place.socket_path, id);
	assert_remembered(&place, id);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		TRIES("%s", wrong[i]);
		write_text(place.file, wrong[i]);
		peer_id_make(NULL, place.socket_path, id);
		assert_remembered(&place, id);
	}
	place_remove(&place);
}

static void without_a_mac_it_is_local_and_random(void **state)
{
	uint8_t first[SMCR_PEER_ID_LEN], second[SMCR_PEER_ID_LEN];
	(void)state;
	peer_id_make(NULL, "/nonexistent/smcrd.sock", first);
	peer_id_make(NULL, "/nonexistent/smcrd.sock", second);
	assert_int_equal(first[2] & 0x03, 0x02);
	assert_memory_not_equal(first + 2, second + 2, SMCR_MAC_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_instance_repeats_its_predecessor),
		cmocka_unit_test(restarts_differ_through_the_file),
		cmocka_unit_test(links_are_not_followed),
		cmocka_unit_test(a_full_disk_leaves_the_file_as_it_was),
		cmocka_unit_test(other_things_than_the_file_are_replaced),
		cmocka_unit_test(without_a_mac_it_is_local_and_random),
	};
	return cmocka_run_group_tests_name("peer_id", tests, NULL, NULL);
}
