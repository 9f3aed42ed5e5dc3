/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "cli/smcrctl/rules.h"

/* A set's elements: "{ a, b }". @param quote  what is before and behind each; may be "" */
static void put_elements(FILE *out, const json_t *list, const char *quote)
{
	size_t i;
	json_t *item;
	fputs("{", out);
	json_array_foreach(list, i, item)
	{
		fprintf(out, "%s%s%s%s", i ? ", " : " ", quote, json_string_value(item), quote);
	}
	fputs(" }", out);
}

static void put_head(FILE *out)
{
	fputs("# UDP port 4791 (RoCEv2) for smcrd and its peers only: docs/security.md of smcrd.\n"
	      "# smcrctl doctor --rules | nft -f -     loads this, in place of what it has loaded "
	      "before\n"
	      "table inet smcrd\n"
	      "delete table inet smcrd\n"
	      "table inet smcrd {\n",
	      out);
}

static void put_peers(FILE *out, const json_t *peers)
{
	bool any = json_array_size(peers) > 0;
	fputs(any ? "\t# The peers that smcrd knows now. SMC-R with others fails: see that all are "
		    "here, with\n"
		    "\t# the IPv4 addresses of all their RNICs, and nobody else. One more:\n"
		    "\t# nft add element inet smcrd peers { ADDRESS }\n"
		  : "\t# smcrd knows no peer now. Write the IPv4 addresses of all RNICs of all "
		    "peers, or their\n"
		    "\t# networks, between the braces, and take the # off there and off the rule "
		    "about peers.\n",
	      out);
	fprintf(out,
		"\tset peers {\n"
		"\t\ttype ipv4_addr; flags interval; auto-merge\n"
		"\t\t%selements = ",
		any ? "" : "# ");
	put_elements(out, peers, "");
	fputs("\n\t}\n", out);
}

/* An empty set would keep everybody out, so without peers that rule is a comment. Which ports peers
 * send from smcrd does not tell. */
static void put_input(FILE *out, const struct rules *rules)
{
	size_t i;
	json_t *sentence;
	json_array_foreach(rules->unsure, i, sentence)
	{
		fprintf(out, "\t# %s\n", json_string_value(sentence));
	}
	fputs("\tchain input {\n"
	      "\t\ttype filter hook input priority filter\n"
	      "\t\tudp dport 4791 iifname != ",
	      out);
	put_elements(out, rules->interfaces, "\"");
	fprintf(out,
		" drop\n"
		"\t\t%sudp dport 4791 ip saddr != @peers drop\n",
		json_array_size(rules->peers) > 0 ? "" : "# ");
	fputs("\t\tudp dport 4791 meta nfproto ipv6 drop\n"
	      "\t\t# Only if all peers have software RNICs of smcrd, which smcrd does not tell: "
	      "hardware and\n"
	      "\t\t# rdma_rxe send from other ports.\n"
	      "\t\t# udp dport 4791 udp sport != 4791 drop\n"
	      "\t}\n",
	      out);
}

static void put_rest(FILE *out, const json_t *users)
{
	fputs("\tchain output {\n"
	      "\t\ttype filter hook output priority filter\n"
	      "\t\tudp dport 4791 meta skuid != ",
	      out);
	put_elements(out, users, "\"");
	fputs(" drop\n"
	      "\t}\n"
	      "\tchain forward { # containers and virtual machines behind this host\n"
	      "\t\ttype filter hook forward priority filter\n"
	      "\t\tudp dport 4791 drop\n"
	      "\t}\n"
	      "}\n",
	      out);
}

char *rules_table(const struct rules *rules)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	put_head(out);
	put_peers(out, rules->peers);
	put_input(out, rules);
	put_rest(out, rules->users);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
