/* SPDX-License-Identifier: MIT */
/* The names of methods and keys on the bus. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <systemd/sd-bus.h>

#include "daemon/bus/form.h"
#include "tests/lib/busfix.h"
#include "tests/lib/tries.h"

static void forms_follow_from_the_table(void **state)
{
	static const struct {
		const char *method;
		enum form_class class;
		const char *member, *in, *out;
	} cases[] = {
		{ "link.delete", FORM_MANAGER, "DeleteLink", "uya{sv}", "sa{sv}" },
		{ "link.delete", FORM_LINK, "Delete", "a{sv}", "sa{sv}" },
		{ "link.delete", FORM_LINKGROUP, NULL, NULL, NULL },
		{ "link.enable", FORM_LINK, "Enable", "", "sa{sv}" },
		{ "link.add", FORM_LINKGROUP, "AddLink", "", "sa{sv}" },
		{ "link.add", FORM_LINK, NULL, NULL, NULL },
		{ "linkgroup.delete", FORM_MANAGER, "DeleteLinkgroup", "u", "sa{sv}" },
		{ "linkgroup.delete", FORM_LINKGROUP, "Delete", "", "sa{sv}" },
		{ "failover", FORM_MANAGER, "Failover", "ua{sv}", "sa{sv}" },
		{ "failover", FORM_LINKGROUP, "Failover", "a{sv}", "sa{sv}" },
		{ "device.drain", FORM_DEVICE, "Drain", "", "sa{sv}" },
		{ "device.add", FORM_DEVICE, NULL, NULL, NULL },
		{ "device.add", FORM_MANAGER, "AddDevice", "s", "sa{sv}" },
		{ "config.set", FORM_MANAGER, "SetConfig", "ss", "sa{sv}" },
		{ "config.reload", FORM_MANAGER, "ReloadConfig", "", "sa{sv}" },
		{ "ueid.add", FORM_MANAGER, "AddUeid", "s", "sa{sv}" },
		{ "ueid.add", FORM_DEVICE, NULL, NULL, NULL },
		{ "info.show", FORM_MANAGER, "ShowInfo", "", "a{sv}" },
		{ "device.show", FORM_MANAGER, "ShowDevice", "", "aa{sv}" },
		{ "connection.show", FORM_MANAGER, "ShowConnection", "a{sv}", "aa{sv}s" },
		{ "policy.show", FORM_MANAGER, "ShowPolicy", "a{sv}", "a{sv}s" },
		{ "cm.show", FORM_MANAGER, "ShowCm", "a{sv}", "a{sv}s" },
		{ "smbdirect.show", FORM_MANAGER, "ShowSmbdirect", "a{sv}", "a{sv}s" },
		{ "smbdirect.disconnect", FORM_MANAGER, "DisconnectSmbdirect", "u", "sa{sv}" },
		{ "cm.check", FORM_MANAGER, "CheckCm", "sq", "sa{sv}" },
		{ "policy.judge", FORM_MANAGER, "JudgePolicy", "sa{sv}", "a{sv}" },
		{ "event.wait", FORM_MANAGER, NULL, NULL, NULL },
		{ "capture.run", FORM_MANAGER, NULL, NULL, NULL },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		TRIES("%s", cases[i].member);
		struct control_method method;
		struct form form;
		size_t number = 0;
		while (control_method(number, &method) && strcmp(method.name, cases[i].method))
			number++;
		assert_string_equal(method.name, cases[i].method);
		assert_int_equal(form_make(&method, cases[i].class, &form),
				 cases[i].member != NULL);
		if (!cases[i].member)
			continue;
		assert_string_equal(form.member, cases[i].member);
		assert_string_equal(form.in, cases[i].in);
		assert_string_equal(form.out, cases[i].out);
	}
}

/* No two methods of the table get the same name, and D-Bus accepts each name. */
static void every_method_has_a_name_of_its_own(void **state)
{
	struct control_method method, other;
	struct form form, with;
	(void)state;
	for (enum form_class class = FORM_MANAGER; class < NUM_FORM_CLASSES; class ++) {
		TRIES("class %d", class);
		for (size_t i = 0; control_method(i, &method); i++) {
			if (!form_make(&method, class, &form))
				continue;
			assert_true(sd_bus_member_name_is_valid(form.member));
			busfix_expect_in_manual(form.member);
			for (size_t j = 0; j < i && control_method(j, &other); j++)
				if (form_make(&other, class, &with))
					assert_string_not_equal(form.member, with.member);
		}
	}
}

static void keys_become_camel_case(void **state)
{
	char camel[FORM_NAME_LEN], longest[200];
	(void)state;
	form_camel("peer_id", camel);
	assert_string_equal(camel, "PeerId");
	form_camel("tcp_option.available", camel);
	assert_string_equal(camel, "TcpOptionAvailable");
	form_camel("link-failed", camel);
	assert_string_equal(camel, "LinkFailed");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	form_camel(longest, camel);
	assert_int_equal(strlen(camel), FORM_NAME_LEN - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_follow_from_the_table),
		cmocka_unit_test(every_method_has_a_name_of_its_own),
		cmocka_unit_test(keys_become_camel_case),
	};
	return cmocka_run_group_tests_name("bus_form", tests, NULL, NULL);
}
