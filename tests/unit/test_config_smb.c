/* SPDX-License-Identifier: MIT */
/* Values of the keys about SMB Direct. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "daemon/host/config_smb.h"
#include "tests/lib/tries.h"

static void servers(void **state)
{
	(void)state;
	struct sockaddr_storage addr;
	const struct sockaddr_in *in = (const void *)&addr;
	const struct sockaddr_un *un = (const void *)&addr;
	char long_path[200];
	assert_int_equal(config_smb_server_parse("127.0.0.1:445", &addr), sizeof(*in));
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(ntohs(in->sin_port), 445);
	assert_int_equal(config_smb_server_parse("[::1]:445", &addr), sizeof(struct sockaddr_in6));
	assert_int_equal(config_smb_server_parse("/run/samba/smb", &addr), sizeof(*un));
	assert_int_equal(un->sun_family, AF_UNIX);
	assert_string_equal(un->sun_path, "/run/samba/smb");
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[199] = '\0';
	assert_int_equal(config_smb_server_parse(long_path, &addr), 0);
	assert_int_equal(config_smb_server_parse("localhost:445", &addr), 0);
	assert_int_equal(config_smb_server_parse("127.0.0.1", &addr), 0);
}

static void clients(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool good;
		uint16_t port, peer_port;
	} tries[] = {
		{ "127.0.0.1:1445 192.0.2.1", true, 1445, 0 },
		{ "127.0.0.1:1445\t 192.0.2.1:5445", true, 1445, 5445 },
		{ "127.0.0.1:1445", false, 0, 0 },
		{ "127.0.0.1 192.0.2.1", false, 0, 0 },
		{ "127.0.0.1:1445 192.0.2.1 more", false, 0, 0 },
		{ "127.0.0.1:1445 server", false, 0, 0 },
		{ "127.0.0.1:1445 192.0.2.1:0", false, 0, 0 },
		{ "127.0.0.1:1445 [::1]:445", false, 0, 0 },
		{ "127.0.0.1:1445 ::1", false, 0, 0 },
		{ "", false, 0, 0 },
	};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		TRIES("%s", tries[i].text);
		struct config_smb_client client;
		assert_int_equal(config_smb_client_parse(tries[i].text, &client), tries[i].good);
		if (!tries[i].good)
			continue;
		const struct sockaddr_in *listen = (const void *)&client.listen;
		const struct sockaddr_in *peer = (const void *)&client.peer;
		assert_int_equal(ntohs(listen->sin_port), tries[i].port);
		assert_int_equal(peer->sin_addr.s_addr, inet_addr("192.0.2.1"));
		assert_int_equal(ntohs(peer->sin_port), tries[i].peer_port);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers),
		cmocka_unit_test(clients),
	};
	return cmocka_run_group_tests_name("config: smb", tests, NULL, NULL);
}
