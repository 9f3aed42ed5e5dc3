/* SPDX-License-Identifier: MIT */
#include "daemon/host/reload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/** One reading. The thread or the event loop frees it, whichever has done with it last. */
struct job {
	const struct config_source *source;
	uint64_t number;
	struct config config;
	struct config_notes errors;
	int result;
	int done_fd;      /* of the thread */
	atomic_bool left; /* the thread or the event loop has done with the job */
};

struct reload {
	struct reload_params params;
	int done_fd;
	struct event *done;
	struct event *slow;
	struct job *job; /* NULL: nothing is being read */
	uint64_t last;   /* number of the last request */
	bool again;      /* the last request came while the files were being read */
};

static void free_job(struct job *job)
{
	if (job->result == 0)
		config_free(&job->config);
	config_notes_free(&job->errors);
	free(job);
}

static void *read_files(void *arg)
{
	struct job *job = arg;
	int fd = job->done_fd;
	job->result = config_load(job->source, &job->config, &job->errors);
	if (atomic_exchange(&job->left, true))
		free_job(job);
	else
		eventfd_write(fd, 1);
	close(fd);
	return NULL;
}

/* Signals are blocked in the thread: the event loop handles them. @return 0 or a negative errno */
static int start_thread(struct job *job)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int error = pthread_attr_init(&attr);
	if (error)
		return -error;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attr, read_files, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return -error;
}

static int start(struct reload *reload)
{
	struct job *job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->source = reload->params.source;
	job->number = reload->last;
	job->done_fd = dup(reload->done_fd);
	int error = job->done_fd < 0 ? -errno : start_thread(job);
	if (error) {
		if (job->done_fd >= 0)
			close(job->done_fd);
		free(job);
		return error;
	}
	reload->job = job;
	const struct timeval patience = { .tv_sec = reload->params.slow_ms / 1000,
					  .tv_usec = reload->params.slow_ms % 1000 * 1000 };
	evtimer_add(reload->slow, &patience);
	return 0;
}

uint64_t reload_begin(struct reload *reload)
{
	if (!reload->again)
		reload->last++;
	if (reload->job)
		reload->again = true;
	else if (start(reload) < 0)
		return 0;
	return reload->last;
}

static void fail(struct reload *reload)
{
	struct config_notes errors = { .num = 0 };
	config_note(&errors, "there is no memory or no thread to read it with");
	reload->params.loaded(reload->params.ctx, reload->last, NULL, &errors);
	config_notes_free(&errors);
}

static void on_slow(evutil_socket_t fd, short what, void *arg)
{
	struct reload *reload = arg;
	(void)fd;
	(void)what;
	reload->params.slow(reload->params.ctx);
}

static void on_done(evutil_socket_t fd, short what, void *arg)
{
	struct reload *reload = arg;
	struct job *job = reload->job;
	eventfd_t count;
	(void)what;
	if (eventfd_read(fd, &count) < 0 || !job)
		return;
	reload->job = NULL;
	evtimer_del(reload->slow);
	reload->params.loaded(reload->params.ctx, job->number,
			      job->result == 0 ? &job->config : NULL, &job->errors);
	free_job(job);
	if (!reload->again)
		return;
	reload->again = false;
	if (start(reload) < 0)
		fail(reload);
}

int reload_new(const struct reload_params *params, struct reload **ret_reload)
{
	struct reload *reload = calloc(1, sizeof(*reload));
	if (!reload)
		return -ENOMEM;
	reload->params = *params;
	reload->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int error = reload->done_fd < 0 ? -errno : 0;
	if (!error)
		reload->done = event_new(params->base, reload->done_fd, EV_READ | EV_PERSIST,
					 on_done, reload);
	if (!error)
		reload->slow = evtimer_new(params->base, on_slow, reload);
	if (!error && (!reload->done || !reload->slow || event_add(reload->done, NULL) < 0))
		error = -ENOMEM;
	if (error) {
		reload_free(reload);
		return error;
	}
	*ret_reload = reload;
	return 0;
}

void reload_free(struct reload *reload)
{
	if (!reload)
		return;
	if (reload->job && atomic_exchange(&reload->job->left, true))
		free_job(reload->job);
	if (reload->done)
		event_free(reload->done);
	if (reload->slow)
		event_free(reload->slow);
	if (reload->done_fd >= 0)
		close(reload->done_fd);
	free(reload);
}
