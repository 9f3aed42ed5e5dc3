/* SPDX-License-Identifier: MIT */
#include "lib/smcr/session.h"

#include <stdio.h>
#include <string.h>

#include "lib/smcr/claim.h"
#include "lib/smcr/pair.h"
#include "lib/smcr/request.h"
#include "lib/smcr/sys.h"
#include "lib/smcr/usable.h"
#include "proto/smcr/reason.h"

#define RENDEZVOUS_MS 60000 /* longest wait for a rendezvous: twice the daemon's limit */
#define MEMORY_MS     1000  /* limit for MEMORY requests, which are made inside read() or write() */
#define SHUTDOWN_MS   100   /* limit for what is told inside shutdown() */

static int error_of(const struct pre_request *s)
{
	struct ipc_error error;
	return ipc_decode_error(s->payload, s->len, &error) < 0 ? EBADMSG : error.error;
}

static void describe(struct pre_handover *handover, const struct pre_request *s)
{
	struct ipc_error error;
	const char *words = strerrordesc_np(handover->error);
	const char *whose = "smcrd cannot be asked";
	if (handover->error == PRE_STANDS_STILL)
		words = "it was stopped, or hangs";
	if (s && ipc_decode_error(s->payload, s->len, &error) == 0) {
		words = error.text;
		whose = "smcrd";
	}
	snprintf(handover->text, sizeof(handover->text), "%s: %s", whose,
		 words ? words : "unknown error");
}

uint32_t pre_reason_not_handed(int error)
{
	switch (error) {
	case EUSERS: return SMCR_REASON_LIMIT;
	case EMFILE:
	case ENFILE: return SMCR_REASON_NO_DESCRIPTORS;
	case EXDEV: return SMCR_REASON_OTHER_NETWORK;
	case EADDRINUSE: return SMCR_REASON_INTERNAL; /* no name for the pair: smcrd's log says */
	default: return SMCR_REASON_NO_DAEMON;
	}
}

/* ---- handing over */

static enum pre_handed judge_result(struct pre_request *s, struct pre_handover *ret_handover)
{
	struct ipc_result result;
	if (s->type == IPC_ERROR) {
		ret_handover->error = error_of(s);
		ret_handover->short_of = pre_is_shortage(-ret_handover->error);
		describe(ret_handover, s);
		if (ret_handover->error == EXDEV)
			pre_usable_foreign();
		return PRE_NOT_HANDED;
	}
	if (s->type != IPC_RESULT || ipc_decode_result(s->payload, s->len, &result) < 0)
		return PRE_HANDED_LOST;
	bool brings_pair = result.outcome == IPC_OUTCOME_PAIR || result.outcome == IPC_OUTCOME_OPEN;
	if (brings_pair != (s->fd >= 0 && pre_pair_given(s->fd)))
		return PRE_HANDED_LOST;
	ret_handover->error = result.error;
	ret_handover->reason = result.reason;
	switch ((enum ipc_outcome)result.outcome) {
	case IPC_OUTCOME_PAIR:
	case IPC_OUTCOME_OPEN:
		ret_handover->fd = s->fd;
		s->fd = -1;
		return result.outcome == IPC_OUTCOME_PAIR ? PRE_HANDED_PAIR : PRE_HANDED_OPEN;
	case IPC_OUTCOME_TCP: return PRE_HANDED_TCP;
	case IPC_OUTCOME_FAILED: return PRE_HANDED_FAILED;
	}
	return PRE_HANDED_LOST;
}

void pre_ask_handover(int fd, enum ipc_handover_kind kind, const union ipc_addr *peer,
		      enum pre_policy policy, struct pre_handover *ret_handover)
{
	struct ipc_handover request = {
		.kind = (uint8_t)kind,
		.flags = policy == PRE_REQUIRE ? IPC_HANDOVER_REQUIRE : 0,
	};
	if (peer)
		request.peer = *peer;
	struct pre_handover handover = { .fd = -1 };
	struct pre_request s;
	uint8_t payload[64];
	int len = ipc_encode_handover(&request, payload, sizeof(payload));
	int rc = pre_request_ask(IPC_HANDOVER, payload, len, fd,
				 kind == IPC_HANDOVER_CONNECTED ? RENDEZVOUS_MS : PRE_REPLY_MS,
				 false, &s);
	if (rc == 0) {
		handover.handed = judge_result(&s, &handover);
	} else {
		handover.handed = s.given ? PRE_HANDED_LOST : PRE_NOT_HANDED;
		handover.error = -rc;
		handover.short_of = pre_is_shortage(rc);
		describe(&handover, NULL);
	}
	pre_request_drop_fd(&s);
	*ret_handover = handover;
}

/* ---- asking about a pair end */

int pre_ask_status(int fd, uint8_t flags, struct ipc_status *ret_status, int *ret_tcp)
{
	if (flags && flags != IPC_STATUS_LOOK && !pre_request_has_free(fd, 2))
		flags = 0;
	const struct ipc_status_request request = { .flags = flags };
	struct ipc_status status;
	struct pre_request s;
	uint8_t payload[8];
	int len = ipc_encode_status_request(&request, payload, sizeof(payload));
	int rc = pre_request_ask(IPC_STATUS_REQUEST, payload, len, fd, PRE_REPLY_MS, false, &s);
	if (rc == 0 && s.type == IPC_ERROR)
		rc = -error_of(&s);
	else if (rc == 0 &&
		 (s.type != IPC_STATUS || ipc_decode_status(s.payload, s.len, &status) < 0))
		rc = -EBADMSG;
	if (rc < 0) {
		pre_request_drop_fd(&s);
		return rc;
	}
	if (!flags || !(status.flags & IPC_STATUS_TAKE_BACK) || !pre_is_tcp(s.fd))
		pre_request_drop_fd(&s);
	*ret_status = status;
	*ret_tcp = s.fd;
	return 0;
}

int pre_ask_info(int fd, bool wait, int limit_ms, struct ipc_info *ret_info)
{
	const struct ipc_info_request request = { .flags = wait ? IPC_INFO_WAIT : 0 };
	struct ipc_info info;
	struct pre_request s;
	uint8_t payload[8];
	int len = ipc_encode_info_request(&request, payload, sizeof(payload));
	int rc = pre_request_ask(IPC_INFO_REQUEST, payload, len, fd, limit_ms, wait, &s);
	pre_request_drop_fd(&s);
	if (rc < 0)
		return rc;
	if (s.type == IPC_ERROR)
		return -error_of(&s);
	if (s.type != IPC_INFO || ipc_decode_info(s.payload, s.len, &info) < 0)
		return -EBADMSG;
	*ret_info = info;
	return 0;
}

int pre_ask_sockopt(int fd, struct ipc_sockopt *inout_option)
{
	struct ipc_sockopt answer;
	struct pre_request s;
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_sockopt(inout_option, payload, sizeof(payload));
	int rc = pre_request_ask(IPC_SOCKOPT_REQUEST, payload, len, fd, PRE_REPLY_MS, false, &s);
	pre_request_drop_fd(&s);
	/* setsockopt() must not return the errors of asking the daemon. */
	if (rc < 0)
		return pre_is_shortage(rc) ? rc : -ECONNRESET;
	if (s.type == IPC_ERROR)
		return -error_of(&s);
	if (s.type != IPC_SOCKOPT || ipc_decode_sockopt(s.payload, s.len, &answer) < 0)
		return -EBADMSG;
	if (answer.result != 0)
		return -answer.result;
	*inout_option = answer;
	return 0;
}

int pre_tell_sockopt(int fd, const struct ipc_sockopt *option)
{
	uint8_t payload[IPC_MAX_CLIENT_LEN];
	int len = ipc_encode_sockopt(option, payload, sizeof(payload));
	return pre_request_tell(IPC_SOCKOPT_REQUEST, payload, len, fd, PRE_REPLY_MS);
}

void pre_tell_shutdown(int fd)
{
	const struct ipc_status_request request = { .flags = IPC_STATUS_LOOK };
	uint8_t payload[8];
	int len = ipc_encode_status_request(&request, payload, sizeof(payload));
	if (!pre_stands_still(fd))
		pre_request_tell(IPC_STATUS_REQUEST, payload, len, fd, SHUTDOWN_MS);
}

int pre_ask_memory(int fd, struct ipc_memory *ret_answer, int *ret_memfd)
{
	const struct ipc_memory_request request = { .version = IPC_MEMORY_VERSION };
	struct ipc_memory answer;
	struct pre_request s;
	uint8_t payload[8];
	if (!pre_request_has_free(fd, 2))
		return -EMFILE;
	int len = ipc_encode_memory_request(&request, payload, sizeof(payload));
	int rc = pre_request_ask(IPC_MEMORY_REQUEST, payload, len, fd, MEMORY_MS, false, &s);
	if (rc == 0 && s.type == IPC_ERROR)
		rc = -error_of(&s);
	else if (rc == 0 &&
		 (s.type != IPC_MEMORY || ipc_decode_memory(s.payload, s.len, &answer) < 0 ||
		  (answer.outcome == IPC_MEMORY_GRANTED) != (s.fd >= 0)))
		rc = -EBADMSG;
	if (rc < 0) {
		pre_request_drop_fd(&s);
		return rc;
	}
	*ret_answer = answer;
	*ret_memfd = s.fd;
	return 0;
}
