/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "cli/smcrctl/doctor.h"

#define ROCE_PORT "12B7" /* 4791, as /proc/net/udp has it */

static bool is_up(const json_t *device)
{
	return !strcmp(doctor_text(device, "state"), "active");
}

/* An IPv4 address as a GID is ::ffff:a.b.c.d */
static const char *ipv4_of(const json_t *device)
{
	static const char mapped[] = "::ffff:";
	size_t i;
	json_t *gid;
	json_array_foreach(json_object_get(device, "gids"), i, gid)
	{
		const char *text = json_string_value(gid);
		if (text && !strncmp(text, mapped, sizeof(mapped) - 1))
			return text + sizeof(mapped) - 1;
	}
	return NULL;
}

/* ---- one RNIC */

static void is_down(struct doctor *doctor, const json_t *device)
{
	struct findings *findings = &doctor->findings;
	const char *name = doctor_text(device, "name"), *netdev = doctor_text(device, "netdev");
	const struct interface *interface = doctor_interface_of(doctor, device);
	if (!ipv4_of(device))
		findings_add(findings, FINDING_WARNING,
			     "RNIC %s cannot be used: %s has no IPv4 address, which RoCE needs%s"
			     "\ngive it one: ip address add ADDRESS/LENGTH dev %s",
			     name, netdev,
			     interface && interface->num_addrs6 ? " also for IPv6 connections" : "",
			     netdev);
	else if (interface && !interface->up)
		findings_add(findings, FINDING_WARNING,
			     "RNIC %s is down: %s is\ntake it up: ip link set %s up", name, netdev,
			     netdev);
	else if (interface && !interface->running)
		findings_add(findings, FINDING_WARNING,
			     "RNIC %s is down: %s has no carrier\nlook at its cable and switch",
			     name, netdev);
	else
		findings_add(findings, FINDING_WARNING,
			     "RNIC %s is down, at %s\nlook at 'ip link show %s'", name, netdev,
			     netdev);
}

static bool is_drained(const json_t *device)
{
	return json_is_true(json_object_get(device, "drained"));
}

static void is_active(struct doctor *doctor, const json_t *device)
{
	if (is_drained(device)) {
		findings_add(&doctor->findings, FINDING_WARNING,
			     "RNIC %s is drained: it gets no new links\n'smcrctl device enable %s' "
			     "ends that",
			     doctor_text(device, "name"), doctor_text(device, "name"));
		return;
	}
	const struct interface *interface = doctor_interface_of(doctor, device);
	char text[64] = "";
	if (interface && interface->mtu)
		snprintf(text, sizeof(text), " (%u)", interface->mtu);
	findings_add(&doctor->findings, FINDING_OK,
		     "RNIC %s is active, at %s%s with %s, MTU of RoCE %" JSON_INTEGER_FORMAT,
		     doctor_text(device, "name"), doctor_text(device, "netdev"), text,
		     ipv4_of(device) ? ipv4_of(device) : "no IPv4 address",
		     doctor_number(device, "mtu", NULL));
}

/* ---- none, and why */

static void why_not(struct doctor *doctor, const struct interface *interface)
{
	struct findings *findings = &doctor->findings;
	if (!interface->ethernet || (!interface->up && !interface->num_addrs))
		return;
	if (!interface->num_addrs)
		findings_add(findings, FINDING_WARNING,
			     "interface %s has no IPv4 address, which RoCE needs%s\ngive it one: "
			     "ip address add ADDRESS/LENGTH dev %s",
			     interface->name,
			     interface->num_addrs6 ? " also for IPv6 connections" : "",
			     interface->name);
	else if (!interface->up)
		findings_add(findings, FINDING_WARNING,
			     "interface %s is down\ntake it up: ip link set %s up", interface->name,
			     interface->name);
}

static void none_at_all(struct doctor *doctor)
{
	findings_add(&doctor->findings, FINDING_PROBLEM,
		     "smcrd has no RNIC in use, so all connections are plain TCP\nan Ethernet "
		     "interface with an IPv4 address will do; 'rnic =' in smcrd.conf(5) may name "
		     "only RNICs that are not there");
	for (size_t i = 0; !doctor->elsewhere && i < doctor->interfaces.num; i++)
		why_not(doctor, &doctor->interfaces.list[i]);
}

static void missing(struct doctor *doctor)
{
	size_t i;
	json_t *rnic;
	json_array_foreach(json_object_get(doctor->host, "missing_rnics"), i, rnic)
	{
		const char *error = doctor_text(rnic, "error");
		const char *name = doctor_text(rnic, "name");
		if (*error)
			findings_add(&doctor->findings, FINDING_WARNING, "RNIC %s is not used: %s",
				     name, error);
		else
			findings_add(&doctor->findings, FINDING_WARNING,
				     "RNIC %s is wanted, but not there\nsee 'ip "
				     "address' for interfaces that have an IPv4 address, 'rdma "
				     "link' for devices",
				     name);
	}
}

/* ---- without smcrd */

static bool port_is_taken(void)
{
	char line[256];
	bool taken = false;
	FILE *sockets = fopen("/proc/net/udp", "re");
	while (sockets && !taken && fgets(line, sizeof(line), sockets)) {
		const char *port = strchr(line, ':');
		port = port ? strchr(port + 1, ':') : NULL;
		taken = port && !strncmp(port + 1, ROCE_PORT " ", sizeof(ROCE_PORT));
	}
	if (sockets)
		fclose(sockets);
	return taken;
}

static bool is_fit(const struct interface *interface)
{
	return interface->ethernet && interface->up && interface->num_addrs > 0;
}

static void without_smcrd(struct doctor *doctor)
{
	const struct interfaces *all = &doctor->interfaces;
	size_t fit = 0;
	for (size_t i = 0; i < all->num; i++)
		fit += is_fit(&all->list[i]);
	for (size_t i = 0; fit == 0 && i < all->num; i++)
		why_not(doctor, &all->list[i]);
	if (fit == 0)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "no Ethernet interface is up and has an IPv4 address, as an RNIC needs"
			     "\ngive an interface an IPv4 address, and set it up");
	else
		findings_add(&doctor->findings, FINDING_OK,
			     "%zu Ethernet interface%s an IPv4 address, for RNICs", fit,
			     fit == 1 ? " is up and has" : "s are up and have");
	/* An smcrd that does not answer has it itself. */
	if (doctor->absent && port_is_taken())
		findings_add(&doctor->findings, FINDING_WARNING,
			     "UDP port 4791 is taken, by the kernel's rdma_rxe or another "
			     "program\nsee 'ss -lunp sport = :4791' and 'rdma link'; smcrd uses "
			     "rdma_rxe's devices by itself");
}

static size_t count_active(const struct doctor *doctor, size_t *ret_drained)
{
	size_t i, active = 0;
	json_t *device;
	*ret_drained = 0;
	json_array_foreach(doctor->devices, i, device)
	{
		active += is_up(device);
		*ret_drained += is_up(device) && is_drained(device);
	}
	return active;
}

/* A drained RNIC does not count: new connections do not use it. */
static void none_in_use(struct doctor *doctor)
{
	size_t drained, active = count_active(doctor, &drained);
	if (active == 0)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "none of smcrd's RNICs is active, so all connections are plain TCP"
			     "\nsee above what each of them lacks");
	else if (active == drained)
		findings_add(&doctor->findings, FINDING_PROBLEM,
			     "every active RNIC is drained, so new connections are plain TCP"
			     "\n'smcrctl device enable NAME' ends that");
}

void doctor_rnics(struct doctor *doctor)
{
	size_t i;
	json_t *device;
	if (!doctor->devices) {
		without_smcrd(doctor);
		return;
	}
	json_array_foreach(doctor->devices, i, device)
	{
		if (is_up(device))
			is_active(doctor, device);
		else
			is_down(doctor, device);
	}
	missing(doctor);
	if (json_array_size(doctor->devices) == 0)
		none_at_all(doctor);
	else
		none_in_use(doctor);
}
