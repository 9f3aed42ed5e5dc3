/* SPDX-License-Identifier: MIT */
#include <unistd.h>

#include "daemon/clients/internal.h"

void close_foreign(int fd)
{
	if (fd >= 0)
		close(fd);
}
