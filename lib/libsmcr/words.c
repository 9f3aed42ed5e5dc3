/* SPDX-License-Identifier: MIT */
#include "include/smcr.h"
#include "proto/smcr/reason.h"

const char *smcr_version(void)
{
	return SMCRD_VERSION;
}

const char *smcr_strmode(uint32_t mode)
{
	switch ((enum smcr_mode)mode) {
	case SMCR_MODE_PENDING: return "pending";
	case SMCR_MODE_SMCR: return "smcr";
	case SMCR_MODE_TCP: return "tcp";
	}
	return "unknown";
}

const char *smcr_strreason(uint32_t reason)
{
	return smcr_reason_text(reason);
}

const char *smcr_strreasonname(uint32_t reason)
{
	return smcr_reason_name(reason);
}
