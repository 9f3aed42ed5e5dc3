/* SPDX-License-Identifier: MIT */
#include "cli/smcrctl/help.h"

#include <string.h>

#include "cli/smcrctl/commands.h"
#include "cli/smcrctl/filters.h"
#include "cli/smcrctl/words.h"
#include "proto/ipc/ipc.h"

#define WORD "help"
#define SHOW "show"

/* ---- lists ---- */

static void put_line(FILE *out, const char *words, const char *help)
{
	fprintf(out, "  %-40s %s\n", words, help);
}

static void put_object(FILE *out, const struct object *object)
{
	char words[80];
	bool filters = filters_begin(object->name, NULL);
	if (object->run)
		snprintf(words, sizeof(words), "%s%s%s", object->name, object->arguments ? " " : "",
			 object->arguments ? object->arguments : "");
	else
		snprintf(words, sizeof(words), "%s [" SHOW "%s]", object->name,
			 filters ? " FILTER .." : "");
	if (object->run || object->print)
		put_line(out, words, object->help);
}

static void put_command(FILE *out, const struct command *command)
{
	char words[80];
	snprintf(words, sizeof(words), "%s%s%s%s%s", command->object, command->name ? " " : "",
		 command->name ? command->name : "", *command->arguments ? " " : "",
		 command->arguments);
	put_line(out, words, command->help);
}

static void put_commands(FILE *out, const struct object *object)
{
	put_object(out, object);
	for (size_t i = 0; i < num_commands; i++)
		if (!strcmp(commands[i].object, object->name))
			put_command(out, &commands[i]);
}

void help_hint(FILE *out)
{
	fputs("usage: smcrctl [OPTIONS] OBJECT [COMMAND] [ARGUMENTS]; see 'smcrctl help'\n", out);
}

void help_usage(FILE *out)
{
	fputs("usage: smcrctl [OPTIONS] OBJECT [COMMAND] [ARGUMENTS]\n\n", out);
	for (size_t i = 0; i < num_objects; i++)
		put_commands(out, &objects[i]);
	fputs("\nA word may be shortened to a prefix that no other word has. LINK is NUMBER or\n"
	      "GROUP/NUMBER. FILTER is a word and a value, such as 'peer 192.0.2.1'. Commands\n"
	      "that change something are for root and the administrators' group. 'smcrctl help\n"
	      "OBJECT' and the manual page smcrctl-OBJECT(8) tell more about an object.\n\n"
	      "  -j, --json          JSON on one line\n"
	      "  -p, --pretty        JSON, indented\n"
	      "  -d, --details       more columns\n"
	      "      --bytes         exact numbers of bytes, not 1.2M\n"
	      "      --sort COLUMN   sort a table by COLUMN; -COLUMN: the largest first\n"
	      "  -w, --watch SECONDS show the object every SECONDS until interrupted; with 'top': "
	      "time\n"
	      "                      between frames\n"
	      "  -w, --write FILE    with 'capture': the file; '-' is standard output\n"
	      "      --data          with 'capture': RDMA writes and their data, too (root only)\n"
	      "      --count N       with 'capture': end after N messages; with 'top': after N "
	      "frames\n"
	      "      --seconds S     with 'capture': end after that time\n"
	      "  -s, --socket PATH   smcrd's socket (default $" IPC_SOCKET_ENV
	      " or " IPC_DEFAULT_SOCKET ")\n"
	      "      --batch         with 'top': one frame of text after the other, also on a "
	      "terminal\n"
	      "      --number N      with 'monitor': the last N events first; with 'top': rows of "
	      "each\n"
	      "                      table\n"
	      "      --rules         with 'doctor': rules for nft that keep strangers from RoCE\n"
	      "      --cm            with 'check': an RDMA connection, not one over SMC-R\n"
	      "      --disorderly    with 'link delete': at once, as if the link had failed\n"
	      "      --wait          with 'drain': until no connection is left\n"
	      "      --off           with 'drain': new connections may use SMC-R again\n"
	      "  -V, --version       print the version\n"
	      "  -h, --help          print this\n\n"
	      "Exit status: 0 done or requested of the peer, 1 refused or failed, 2 usage,\n"
	      "3 no daemon, 4 not found.\n",
	      out);
}

/* ---- help about one object ---- */

#define LINE_LEN 76

/* "Columns: A, B, C", in lines that are not too long. */
static void put_columns(const struct object *object, bool details, const char *begin)
{
	size_t at = strlen(begin), n = 0;
	for (size_t c = 0; c < object->num_columns; c++) {
		const struct column *column = &object->columns[c];
		if (column->details != details)
			continue;
		fputs(n++ ? "," : begin, stdout);
		if (at + strlen(column->title) + 2 > LINE_LEN) {
			fputs("\n   ", stdout);
			at = 3;
		}
		at += (size_t)printf(" %s", column->title) + 1;
	}
	if (n)
		putchar('\n');
}

static void put_filters(const char *object)
{
	char text[200];
	filters_list(object, text, sizeof(text));
	if (*text)
		printf("\nFilters, each with its value: %s\n", text);
}

static void help_object(const struct object *object)
{
	const struct command *own = commands_own(object);
	printf("usage: smcrctl [OPTIONS] %s ..\n\n", object->name);
	put_commands(stdout, object);
	if (own && !own->parse)
		put_filters(FILTERS_OF_EVENTS);
	else if (object->print || object->run)
		put_filters(object->name);
	if (object->num_columns)
		putchar('\n');
	put_columns(object, false, "Columns:");
	put_columns(object, true, "With -d also:");
	printf("\nsmcrctl-%s(8) explains all of this.\n", object->name);
}

static bool help_command(const struct object *object, const char *word)
{
	const struct command *command = NULL;
	if (object->run || commands_own(object))
		return words_refuse("%s has no commands; 'smcrctl help %s' tells what it does",
				    object->name, object->name);
	if (!commands_find(object, word, &command))
		return false;
	if (!command) {
		help_object(object);
		return true;
	}
	puts("usage:");
	put_command(stdout, command);
	printf("\nsmcrctl-%s(8) says what the command does.\n", object->name);
	return true;
}

bool help_is_wanted(int argc, char **argv)
{
	return !strcmp(argv[0], WORD) || (argc <= 3 && !strcmp(argv[argc - 1], WORD));
}

bool help_words(int argc, char **argv)
{
	if (!strcmp(argv[0], WORD))
		argv++;
	argc--;
	if (argc == 0) {
		help_usage(stdout);
		return true;
	}
	const struct object *object = commands_find_object(argv[0]);
	if (!object)
		return false;
	if (argc > 2)
		return words_refuse("unexpected argument '%s'", argv[2]);
	if (argc == 2)
		return help_command(object, argv[1]);
	help_object(object);
	return true;
}
