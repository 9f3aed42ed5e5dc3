/* SPDX-License-Identifier: MIT */
#include "daemon/host/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int copy_out(const void *addr, size_t len, int fd, off_t offset)
{
	size_t done = 0;
	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)addr + done, len - done, offset + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

int pages_share(void *addr, size_t len, int fd, off_t offset)
{
	int r = copy_out(addr, len, fd, offset);
	if (r < 0)
		return r;
	/* MAP_POPULATE fills the page tables; otherwise the first touch of each page would
	 * fault. */
	void *at = mmap(addr, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
			fd, offset);
	return at == MAP_FAILED ? -errno : 0;
}

int pages_own(void *addr, size_t len)
{
	void *copy = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return -errno;
	memcpy(copy, addr, len);
	if (mremap(copy, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, addr) != MAP_FAILED)
		return 0;
	int error = errno;
	munmap(copy, len);
	return -error;
}

int pages_renew(void *addr, size_t len)
{
	madvise(addr, len, MADV_REMOVE); /* has no effect on private pages */
	void *at = mmap(addr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			-1, 0);
	return at == MAP_FAILED ? -errno : 0;
}

int pages_discard(void *addr, size_t len)
{
	return madvise(addr, len, MADV_DONTNEED) < 0 ? -errno : 0;
}
