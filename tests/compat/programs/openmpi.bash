# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="Open MPI over TCP, six processes on two hosts: each connects to all others, large and small messages, everybody to everybody, sums, communicators; a process that aborts"
PACKAGES=(openmpi-bin libopenmpi-dev gcc)
LIMIT=120

programs() {
	cat >all.c <<-'END'
	#include <mpi.h>
	#include <stdio.h>
	#include <stdlib.h>
	#include <string.h>
	enum { LARGE = 4 << 20 };
	static int rank, size;
	static void say(const char *what, long value)
	{
		long least, most;
		MPI_Reduce(&value, &least, 1, MPI_LONG, MPI_MIN, 0, MPI_COMM_WORLD);
		MPI_Reduce(&value, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%s\t%ld %ld\n", what, least, most);
	}
	static unsigned char pattern(long i, int who) { return (unsigned char)(i * 31 + i / 977 + who); }
	static long wrong(const unsigned char *data, int who)
	{
		long n = 0;
		for (long i = 0; i < LARGE; i++)
			n += data[i] != pattern(i, who);
		return n;
	}
	int main(int argc, char **argv)
	{
		MPI_Init(&argc, &argv);
		MPI_Comm_rank(MPI_COMM_WORLD, &rank);
		MPI_Comm_size(MPI_COMM_WORLD, &size);
		say("processes", size);
		/* each with all others at once: connections are made from both sides */
		unsigned char *out = malloc(LARGE), *in = malloc((size_t)LARGE * size);
		MPI_Request *requests = malloc(sizeof(*requests) * 2 * size);
		for (long i = 0; i < LARGE; i++)
			out[i] = pattern(i, rank);
		for (int i = 0; i < size; i++) {
			MPI_Irecv(in + (size_t)LARGE * i, LARGE, MPI_BYTE, i, 1, MPI_COMM_WORLD, &requests[i]);
			MPI_Isend(out, LARGE, MPI_BYTE, i, 1, MPI_COMM_WORLD, &requests[size + i]);
		}
		MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE);
		long bad = 0;
		for (int i = 0; i < size; i++)
			bad += wrong(in + (size_t)LARGE * i, i);
		say("large", bad);
		/* a token around the ring */
		long token = 0;
		for (int round = 0; round < 500; round++) {
			int next = (rank + 1) % size, last = (rank + size - 1) % size;
			if (rank == 0) {
				token++;
				MPI_Send(&token, 1, MPI_LONG, next, 2, MPI_COMM_WORLD);
				MPI_Recv(&token, 1, MPI_LONG, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else {
				MPI_Recv(&token, 1, MPI_LONG, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				token++;
				MPI_Send(&token, 1, MPI_LONG, next, 2, MPI_COMM_WORLD);
			}
		}
		MPI_Bcast(&token, 1, MPI_LONG, 0, MPI_COMM_WORLD);
		say("ring", token);
		int *a = malloc(sizeof(int) * 1000 * size), *b = malloc(sizeof(int) * 1000 * size);
		bad = 0;
		for (int round = 0; round < 50; round++) {
			for (int i = 0; i < 1000 * size; i++)
				a[i] = rank * 1000000 + i + round;
			MPI_Alltoall(a, 1000, MPI_INT, b, 1000, MPI_INT, MPI_COMM_WORLD);
			for (int i = 0; i < 1000 * size; i++)
				bad += b[i] != i / 1000 * 1000000 + rank * 1000 + i % 1000 + round;
		}
		say("alltoall", bad);
		double sum = 0, mine;
		for (int round = 0; round < 300; round++) {
			mine = rank + round + sum / 1e9;
			MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
			MPI_Barrier(MPI_COMM_WORLD);
		}
		say("allreduce", (long)(sum * 1000));
		MPI_Comm half;
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
		long added;
		token = rank;
		MPI_Allreduce(&token, &added, 1, MPI_LONG, MPI_SUM, half);
		say("split", added);
		if (argc > 1 && rank == size - 1)
			MPI_Abort(MPI_COMM_WORLD, 7);
		if (argc > 1)
			MPI_Recv(&token, 1, MPI_LONG, size - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Finalize();
		return 0;
	}
	END
	# This script replaces ssh: it runs the command on host b, with another host name.
	cat >remote <<-END
	#!/bin/bash
	shift
	exec ip netns exec $HOSTS_ID-b env -i PATH="$PATH" HOME=/root SMCRD_SOCKET="$HOSTS_DIR/b.sock" \\
		unshare -u sh -c 'hostname hostb; exec "\$@"' - ${RUN[*]} sh -c "\$*"
	END
	chmod 755 remote
}

# mpi WORDS..: run the program with three processes on each host
mpi() {
	# shellcheck disable=SC2016
	on a unshare -u sh -c 'hostname hosta; exec "$@"' - "${RUN[@]}" mpirun --allow-run-as-root \
		--oversubscribe --host "$SERVER:3,$CLIENT:3" --mca plm_rsh_agent "$DIR/remote" \
		--mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
		--mca mpi_yield_when_idle 1 --mca orte_abort_on_non_zero_status 1 "$@"
}

run() {
	local name value
	programs
	right compiles mpicc -O1 -o all all.c
	mpi "$DIR/all" >all.out 2>all.log
	result all "$?"
	while IFS=$'\t' read -r name value; do
		result "$name" "$value"
	done <all.out
	mpi --mca btl_tcp_links 3 "$DIR/all" >links.out 2>links.log
	result links "$? $(tr '\n\t' ', ' <links.out)"
	mpi "$DIR/all" abort >abort.out 2>abort.log
	result abort "$? $(grep -o 'MPI_ABORT was invoked.*' abort.log | head -n 1)"
}
