/* SPDX-License-Identifier: MIT */
#include "include/smcr.h"
#include "proto/smcr/reason.h"

const char *smcr_version(void)
{
	return SMCRD_VERSION;
}

const char *smcr_strreason(uint32_t reason)
{
	return smcr_reason_text(reason);
}

const char *smcr_strreasonname(uint32_t reason)
{
	return smcr_reason_name(reason);
}
