/* SPDX-License-Identifier: MIT */
#include "daemon/host/peer_id.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint16_t peer_id_next_instance(bool known, uint16_t previous, uint64_t seconds)
{
	uint16_t instance = (uint16_t)seconds;
	if (known && instance == previous)
		instance++;
	return instance;
}

static uint16_t remembered_instance(const char *socket_path)
{
	char path[PATH_MAX];
	unsigned int previous = 0;
	snprintf(path, sizeof(path), "%s.instance", socket_path);
	FILE *file = fopen(path, "re");
	bool known = file && fscanf(file, "%x", &previous) == 1 && previous <= UINT16_MAX;
	if (file)
		fclose(file);
	uint16_t instance = peer_id_next_instance(known, (uint16_t)previous, (uint64_t)time(NULL));
	file = fopen(path, "we");
	if (file) {
		fprintf(file, "%04x\n", instance);
		fclose(file);
	}
	return instance;
}

void peer_id_make(const uint8_t mac[SMCR_MAC_LEN], const char *socket_path,
		  uint8_t ret_peer_id[SMCR_PEER_ID_LEN])
{
	uint16_t instance = remembered_instance(socket_path);
	ret_peer_id[0] = (uint8_t)(instance >> 8);
	ret_peer_id[1] = (uint8_t)instance;
	if (mac) {
		memcpy(ret_peer_id + 2, mac, SMCR_MAC_LEN);
		return;
	}
	if (getrandom(ret_peer_id + 2, SMCR_MAC_LEN, 0) != SMCR_MAC_LEN)
		memset(ret_peer_id + 2, 0, SMCR_MAC_LEN);
	ret_peer_id[2] = (uint8_t)((ret_peer_id[2] & 0xFC) | 0x02); /* local, not multicast */
}
