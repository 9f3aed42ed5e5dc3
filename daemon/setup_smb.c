/* SPDX-License-Identifier: MIT */
/* Step of the start that makes the gateway between SMB over TCP and SMB Direct, and what the
 * gateway tells. */
#include <string.h>

#include "daemon/host/log.h"
#include "daemon/internal.h"
#include "daemon/smbgate/trace.h"

static void on_told(void *ctx, const struct smbgate_told *told)
{
	struct smcrd *smcrd = ctx;
	events_smbdirect(smcrd->events, told);
}

static void on_message(void *ctx, const struct smbgate_message *message)
{
	(void)ctx;
	smbgate_trace(message);
}

static void fill_offer(const struct config_smb_client *client, struct smbgate_offer *ret_offer)
{
	const struct sockaddr_in *peer = (const struct sockaddr_in *)&client->peer;
	*ret_offer = (struct smbgate_offer){
		.listen = client->listen,
		.listen_len = client->listen_len,
		.peer = { .family = AF_INET, .port = ntohs(peer->sin_port) },
	};
	memcpy(ret_offer->peer.addr, &peer->sin_addr, sizeof(peer->sin_addr));
}

void setup_smb_listeners(struct smcrd *smcrd, struct config_notes *notes)
{
	const struct config_smb *smb = &smcrd->config.smb;
	struct smbgate_config config = {
		.serve = smb->server_len > 0,
		.server = smb->server,
		.server_len = smb->server_len,
		.num_offers = smb->num_clients,
		.memory = smb->memory,
	};
	char error[SMBGATE_TEXT_LEN];
	_Static_assert(CONFIG_MAX_SMB_CLIENTS <= SMBGATE_OFFERS_MOST, "each has a place");
	for (size_t i = 0; i < smb->num_clients; i++)
		fill_offer(&smb->clients[i], &config.offers[i]);
	if (smbgate_configure(smcrd->smbgate, &config, error) < 0)
		config_note(notes, "%s; a reload tries again", error);
}

int setup_smb(struct smcrd *smcrd)
{
	const struct smbgate_params params = { .base = smcrd->base,
					       .cm = smcrd->cm,
					       .told = on_told,
					       .tap = on_message,
					       .ctx = smcrd };
	struct config_notes notes = { .num = 0 };
	int error = smbgate_new(&params, &smcrd->smbgate);
	if (error)
		return error;
	smcrd->control.smbgate = smcrd->smbgate;
	setup_smb_listeners(smcrd, &notes);
	describe_notes(LOG_WARNING, &notes);
	config_notes_free(&notes);
	return 0;
}
