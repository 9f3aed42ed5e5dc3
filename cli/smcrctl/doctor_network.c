/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/doctor.h"
#include "cli/smcrctl/firewall.h"
#include "cli/smcrctl/nft.h"

/* Does RoCE use the interface: has smcrd an RNIC on it, or would smcrd take it if it ran? */
static bool is_used(const struct doctor *doctor, const struct interface *interface)
{
	size_t i;
	json_t *device;
	if (!doctor->devices)
		return interface->ethernet && interface->num_addrs > 0;
	json_array_foreach(doctor->devices, i, device)
	{
		if (doctor_interface_of(doctor, device) == interface)
			return true;
	}
	return false;
}

/* ---- the firewall ---- */

/* Whose socket RoCE's packets of the interface are of: smcrd's user, or -1: not known. The kernel's
 * rdma_rxe has a socket that is of no user. */
static json_int_t sender_of(const struct doctor *doctor, const struct interface *interface)
{
	const json_t *uid = json_object_get(doctor->host, "uid");
	size_t i;
	json_t *device;
	json_array_foreach(doctor->devices, i, device)
	{
		if (doctor_interface_of(doctor, device) == interface &&
		    strcmp(doctor_text(device, "kind"), "soft") != 0)
			return -1;
	}
	return json_is_integer(uid) ? json_integer_value(uid) : -1;
}

static void judge(struct doctor *doctor, const json_t *ruleset, const struct interface *interface,
		  bool incoming)
{
	struct firewall_verdict verdict =
		firewall_judge(ruleset, interface->name, incoming, sender_of(doctor, interface));
	const char *way = incoming ? "comes in" : "goes out";
	if (verdict.fate == FIREWALL_DROPS)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "the firewall drops UDP port 4791, which RoCE needs, where it %s at "
			     "%s: %s\nlet it pass: nft insert rule %s udp dport 4791 accept",
			     way, interface->name, verdict.where, verdict.chain);
	else if (verdict.fate == FIREWALL_MAY_DROP)
		findings_add(&doctor->findings, FINDING_WARNING,
			     "the firewall drops some of UDP port 4791, which RoCE needs, where it "
			     "%s at %s: %s\nsee that all peers pass: nft -a list ruleset",
			     way, interface->name, verdict.where);
}

static void cannot_look(struct doctor *doctor, const char *why)
{
	findings_add(&doctor->findings, FINDING_WARNING,
		     "whether the firewall drops UDP port 4791 cannot be checked: %s\n%s", why,
		     doctor->root ? "look for it in the rules of the firewall that is used here"
				  : "run this as root");
}

/* Are there tables of iptables-legacy, which nft does not list? Only root can read the file. */
static bool has_legacy_tables(void)
{
	FILE *names = fopen("/proc/net/ip_tables_names", "re");
	bool any = names && fgetc(names) != EOF;
	if (names)
		fclose(names);
	return any;
}

void doctor_firewall(struct doctor *doctor)
{
	char error[NFT_ERROR_LEN];
	size_t problems = findings_count(&doctor->findings, FINDING_PROBLEM);
	size_t warnings = findings_count(&doctor->findings, FINDING_WARNING);
	if (doctor->elsewhere)
		return;
	json_t *ruleset = doctor->root ? nft_ruleset(error) : NULL;
	if (!ruleset) {
		cannot_look(doctor, doctor->root ? error : "that needs root");
		return;
	}
	for (size_t i = 0; i < doctor->interfaces.num; i++) {
		const struct interface *interface = &doctor->interfaces.list[i];
		if (!is_used(doctor, interface))
			continue;
		judge(doctor, ruleset, interface, true);
		judge(doctor, ruleset, interface, false);
	}
	json_decref(ruleset);
	if (has_legacy_tables())
		cannot_look(doctor, "there are rules of iptables-legacy");
	if (findings_count(&doctor->findings, FINDING_PROBLEM) == problems &&
	    findings_count(&doctor->findings, FINDING_WARNING) == warnings)
		findings_add(
			&doctor->findings, FINDING_OK,
			"no rule of nftables is seen to drop UDP port 4791 (those of peers and "
			"switches are not seen from here)");
}

/* ---- two interfaces on one network ---- */

/* A setting of the kernel: the larger value of the interface's and that for all is in force. */
static int setting(const char *interface, const char *name)
{
	const char *const places[] = { "all", interface };
	int largest = 0;
	for (size_t i = 0; i < 2; i++) {
		char path[128];
		int value = 0;
		snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", places[i], name);
		FILE *file = fopen(path, "re");
		if (file && fscanf(file, "%d", &value) == 1 && value > largest)
			largest = value;
		if (file)
			fclose(file);
	}
	return largest;
}

static void answer_for_each_other(struct doctor *doctor, const struct interface *a,
				  const struct interface *b)
{
	if (setting(a->name, "arp_ignore") && setting(b->name, "arp_ignore") &&
	    setting(a->name, "arp_announce") == 2 && setting(b->name, "arp_announce") == 2)
		return;
	findings_add(&doctor->findings, FINDING_WARNING,
		     "%s and %s are on one network and answer ARP for each other, so that packets "
		     "for one may come in by the other\nsysctl -w net.ipv4.conf.all.arp_ignore=1 "
		     "net.ipv4.conf.all.arp_announce=2",
		     a->name, b->name);
}

static void filter_each_other(struct doctor *doctor, const struct interface *interface)
{
	if (setting(interface->name, "rp_filter") != 1)
		return;
	findings_add(&doctor->findings, FINDING_WARNING,
		     "rp_filter of %s is strict (1), and another interface is on the same network: "
		     "what peers send to the one without the route is dropped\nsysctl -w "
		     "net.ipv4.conf.%s.rp_filter=2",
		     interface->name, interface->name);
}

static void differ_in_mtu(struct doctor *doctor, const struct interface *a,
			  const struct interface *b)
{
	if (a->mtu == b->mtu)
		return;
	findings_add(&doctor->findings, FINDING_WARNING,
		     "%s and %s are on one network with different MTUs, %u and %u: the larger one "
		     "must not be larger than what the path carries\ngive both the MTU of the "
		     "network: ip link set DEVICE mtu NUMBER",
		     a->name, b->name, a->mtu, b->mtu);
}

void doctor_subnets(struct doctor *doctor)
{
	const struct interfaces *all = &doctor->interfaces;
	bool told[INTERFACES_MAX] = { false };
	for (size_t i = 0; !doctor->elsewhere && i < all->num; i++) {
		for (size_t j = i + 1; j < all->num; j++) {
			const struct interface *a = &all->list[i], *b = &all->list[j];
			if (!is_used(doctor, a) || !is_used(doctor, b) ||
			    !interfaces_share_network(a, b))
				continue;
			answer_for_each_other(doctor, a, b);
			differ_in_mtu(doctor, a, b);
			if (!told[i])
				filter_each_other(doctor, a);
			if (!told[j])
				filter_each_other(doctor, b);
			told[i] = told[j] = true;
		}
	}
}
