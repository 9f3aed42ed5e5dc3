/* SPDX-License-Identifier: MIT */
/*
 * dlopen() and dlmopen(): plugins whose calls would pass the library by.
 *
 * With RTLD_DEEPBIND the dynamic loader looks for a plugin's symbols in the plugin and in the
 * libraries that it needs before it looks in the program's, where this library is the first. One of
 * the libraries that it needs is the C library. So the flag is left out.
 *
 * dlmopen() may give the plugin a namespace of its own, with another copy of the C library and
 * without preloaded libraries. There is no remedy: this is told with -v, and refused with
 * --require.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/smcr/log.h"
#include "lib/smcr/next.h"
#include "lib/smcr/ready.h"
#include "lib/smcr/settings.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * The C library takes the owner of the return address for the caller, whose RPATH, RUNPATH, $ORIGIN
 * and namespace count. That has to be the program. So the next function is not called, but jumped
 * to: JUMP stands for the `return` of such a call, JUMPS before a function that has one. A compiler
 * without musttail jumps where it optimizes.
 */
#if defined(__has_attribute) && __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#define JUMPS
#else
#define JUMP  return
#define JUMPS __attribute__((optimize("O2"), no_instrument_function))
#endif

/* On PowerPC a call of another library's function returns to its caller, to put the caller's TOC
 * back. There plugins pass by. */
#ifndef __powerpc__

static void *no_dlopen(const char *file, int mode)
{
	(void)file, (void)mode;
	return NULL;
}

static void *no_dlmopen(Lmid_t space, const char *file, int mode)
{
	(void)space, (void)file, (void)mode;
	return NULL;
}

static struct {
	void *(*dlopen)(const char *file, int mode);
	void *(*dlmopen)(Lmid_t space, const char *file, int mode);
} next = { no_dlopen, no_dlmopen };

/* Constructors of other libraries may open plugins earlier, so each function here calls it too.
 * Several threads may run this; they find the same. */
__attribute__((constructor)) static void find_next(void)
{
	static _Atomic bool found;
	if (atomic_load_explicit(&found, memory_order_acquire))
		return;
	pre_next_symbol("dlopen", &next.dlopen, sizeof(next.dlopen));
	pre_next_symbol("dlmopen", &next.dlmopen, sizeof(next.dlmopen));
	atomic_store_explicit(&found, true, memory_order_release);
}

/* The library's business? Not before it has begun, and not if the user wants the plugins' own way.
 */
static bool concerns(void)
{
	return pre_ready() && !pre_settings.dlopen_alone;
}

static void tell(const char *file, const char *text)
{
	const char *parts[] = { file, text, NULL };
	if (file && pre_ready() && pre_settings.verbose)
		pre_log_text(parts);
}

/* @return the mode in which the file is to be opened */
__attribute__((noinline)) static int change_mode(const char *file, int mode)
{
	int saved = errno;
	find_next();
	if (!(mode & RTLD_DEEPBIND))
		return mode;
	if (concerns()) {
		tell(file,
		     " is opened without RTLD_DEEPBIND, so that its connections can use SMC-R "
		     "(" PRE_DLOPEN_ENV "=0 leaves the flag)");
		mode &= ~RTLD_DEEPBIND;
	} else {
		tell(file, " is opened with RTLD_DEEPBIND: its calls pass smcr-run's library by");
	}
	errno = saved;
	return mode;
}

/* May the file be opened in this namespace? */
__attribute__((noinline)) static bool allows(Lmid_t space, const char *file)
{
	int saved = errno;
	bool refused = space != LM_ID_BASE && concerns() && pre_settings.require;
	if (refused)
		tell(file, " is not opened in a namespace of its own: its connections would be "
			   "plain TCP (--require)");
	else if (space != LM_ID_BASE)
		tell(file,
		     " is opened in a namespace of its own (dlmopen): connections that it "
		     "makes are plain TCP, and those that it is given are Unix sockets to it");
	errno = saved;
	return !refused;
}

/* The text of dlerror() is the C library's, which puts the name of the file in front. A mode that
 * says neither RTLD_LAZY nor RTLD_NOW is refused before a file is looked for. */
__attribute__((noinline)) static void *refuse(const char *file)
{
	char text[512];
	snprintf(text, sizeof(text),
		 "%s: smcr-run --require: a plugin in a namespace of its own cannot use SMC-R",
		 file ? file : "the program");
	return next.dlopen(text, 0);
}

EXPORT JUMPS void *dlopen(const char *file, int mode)
{
	mode = change_mode(file, mode);
	JUMP next.dlopen(file, mode);
}

EXPORT JUMPS void *dlmopen(Lmid_t space, const char *file, int mode)
{
	mode = change_mode(file, mode);
	if (!allows(space, file))
		return refuse(file);
	JUMP next.dlmopen(space, file, mode);
}

#endif
