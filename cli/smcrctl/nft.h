/* SPDX-License-Identifier: MIT */
/** @file nft.h The rules of the firewall, as nft(8) lists them. */
#ifndef SMCRD_SMCRCTL_NFT_H
#define SMCRD_SMCRCTL_NFT_H

#include <jansson.h>

#define NFT_ERROR_LEN 256

/**
 * Run "nft -j list ruleset", for some seconds at most.
 * @return the ruleset, a new reference; NULL: ret_error has a sentence
 */
json_t *nft_ruleset(char ret_error[NFT_ERROR_LEN]);

#endif
