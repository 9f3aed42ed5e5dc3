/* SPDX-License-Identifier: MIT */
/**
 * @file commands.h
 * The commands about link groups and links. This is the only list of them: smcrctl makes of it what
 * it takes and helps with (cli/smcrctl/commands.c), the control its methods (daemon/control/
 * control.c), the engine the types of its commands (daemon/smcr/engine.h).
 */
#ifndef SMCRD_IPC_COMMANDS_H
#define SMCRD_IPC_COMMANDS_H

/** What a command is told. */
enum ipc_takes {
	IPC_TAKES_GROUP,          /* a link group */
	IPC_TAKES_LINK,           /* a link of a group */
	IPC_TAKES_LINK_AND_ORDER, /* likewise, and whether it goes in good order */
	IPC_TAKES_GROUP_AND_TWO, /* a link group and, if wanted, a link to leave and one to go to */
};

/*
 * X(type, method, object, word, takes, asks, help)
 *   type          of the engine: SMCR_COMMAND_..
 *   method        of smcrd
 *   object, word  of smcrctl; a word that is NULL is not needed
 *   takes         IPC_TAKES_..
 *   asks          does the client of a group have to ask the server for it?
 *   help          of smcrctl
 */
#define IPC_COMMANDS(X)                                                                            \
	X(LGR_DELETE, "linkgroup.delete", "linkgroup", "delete", GROUP, true,                      \
	  "end the group; its connections are reset")                                              \
	X(LINK_ADD, "link.add", "link", "add", GROUP, true,                                        \
	  "add a link between free RDMA devices")                                                  \
	X(LINK_DELETE, "link.delete", "link", "delete", LINK_AND_ORDER, true,                      \
	  "take the link down; its connections move first")                                        \
	X(LINK_TEST, "link.test", "link", "test", LINK, false,                                     \
	  "does the peer answer, and how fast?")                                                   \
	X(LINK_DISABLE, "link.disable", "link", "disable", LINK, false,                            \
	  "write on other links, if there are any")                                                \
	X(LINK_ENABLE, "link.enable", "link", "enable", LINK, false, "use the link again")         \
	X(FAILOVER, "failover", "failover", NULL, GROUP_AND_TWO, false,                            \
	  "move what this host writes")

#endif
