/* SPDX-License-Identifier: MIT */
/*
 * The sending half of a shared connection (docs/data-path.md), in every order of steps: the daemon,
 * two writers of the library, of which one may die at any step, and an outsider that writes into the
 * pair with plain system calls. A write that began after another one had ended must come behind it in
 * the stream, and the parts of one write must come in order.
 *
 * run.sh also explores the protocol with single rules left out (WITHOUT_..): then SPIN must find an
 * error.
 */
#ifndef LIBRARY
#define LIBRARY 1 /* writes of the library, each in a separate process */
#endif
#ifndef OUTSIDE
#define OUTSIDE 2 /* writes of the outsider */
#endif
#define WRITES (LIBRARY + OUTSIDE)
#define UNITS  2  /* parts of each write */
#ifndef ROOM
#define ROOM 3 /* parts that the send buffer holds */
#endif
#define NOBODY 0
#define DAEMON 9

/* ---- shared memory */
byte committed;       /* the word that a commit moves by compare and swap */
bool taken_over;      /* the flag bit of the same word: no commit succeeds any more */
byte completed;       /* published by the daemon: parts before it have left the buffer */
byte lock;
bool backlog;         /* published by the daemon: a message of the pair has been taken in part */
bool polled;          /* published by the daemon: it polls this memory */
byte buffer[UNITS * WRITES];      /* which write each part is of */

/* ---- the pair: the message that holds the kept byte, with what is left in it, then others */
byte kept_rest, kept_id;
bool kept_big;
chan queue = [4] of { byte, byte, bool }; /* write, parts, does the kernel charge more than the least? */
bool event;           /* wakes the daemon */

/* ---- the observer */
byte sent[WRITES + 1];   /* parts that the daemon has put into the stream */
byte began[WRITES + 1];  /* set of the writes that had ended when this one began */
byte ended;              /* set of writes */
byte seen;               /* the daemon's place in the buffer */
byte writers_done;
bool one_died;           /* a writer died in a write: what it committed may wait for the next event */

inline begin(id) { d_step { began[id] = ended } }
inline end(id) { d_step { ended = ended | (1 << (id - 1)) } }

inline put(id) {
	d_step {
		i = 1;
		do
		:: i <= WRITES ->
			assert(!(began[id] & (1 << (i - 1))) || sent[i] == UNITS);
			i++
		:: else -> break
		od;
		sent[id] = sent[id] + 1;
		i = 0
	}
}

/* What the kernel tells: is a single message of the least charge all that is queued? */
#ifdef WITHOUT_KERNEL
#define IDLE true
#else
#define IDLE (len(queue) == 0 && !kept_big)
#endif

#ifdef WITHOUT_BACKLOG
#define IN_PART false
#else
#define IN_PART backlog
#endif

#ifdef WITHOUT_REVOCATION
#define UNCHANGED (committed == c)
#else
#define UNCHANGED (committed == c && !taken_over)
#endif

#ifdef WITHOUT_SECOND_LOOK
#define BUSY false
#else
#define BUSY (lock != NOBODY)
#endif

#ifdef WITHOUT_EARLY_READ
#define READ_EARLY(at) skip
#define READ_LATE(at)  last = buffer[at]
#else
#define READ_EARLY(at) last = buffer[at]
#define READ_LATE(at)  skip
#endif

#ifdef WITHOUT_DOORBELL
#define KEEP_LAST false
#else
#define KEEP_LAST doorbell
#endif

/* send(): waits while the pair is full. */
inline raw(id, n, big) { atomic { len(queue) < 3 -> queue!id, n, big; event = true } }

/* A write, or its rest, goes through the pair. The last part is a message by itself, so that the next
 * writer can use the memory again. */
inline raw_rest(id, n) {
	if
	:: n > 1 -> raw(id, n - 1, true); raw(id, 1, false)
	:: n == 1 -> raw(id, 1, false)
	:: else
	fi
}

inline step() {
	if
	:: mortal && !died -> d_step { died = true; one_died = true }; goto out
	:: true
	fi
}

proctype Writer(byte me; byte id; bool mortal) {
	byte left, m, c, last;
	bool died = false, doorbell, ok;
	begin(id);
	left = UNITS;
	do
	:: left == 0 -> break
	:: else ->
		atomic {
			if
			:: lock == NOBODY -> lock = me
			:: else -> goto with_pair
			fi
		}
		step();
		doorbell = !polled;
		step();
		if
		:: taken_over || !IDLE || IN_PART ->
			step();
			lock = NOBODY;
with_pair:		raw_rest(id, left);
			left = 0
		:: else ->
			step();
			c = committed;
			m = ROOM - (c - completed);
			if
			:: m == 0 -> /* full: a part goes through the pair, where the kernel lets it wait */
				lock = NOBODY;
				raw(id, 1, false);
				left--
			:: else ->
				if :: m > left -> m = left :: else fi;
				d_step {
					buffer[c] = id;
					if :: m > 1 -> buffer[c + 1] = id :: else fi
				}
				step();
				/* The last part goes through the pair, as it is in the memory. */
				d_step {
					READ_EARLY(c + m - 1);
					if :: KEEP_LAST -> m = m - 1 :: else fi
				}
				atomic {
					ok = UNCHANGED;
					if
					:: ok ->
						committed = c + m;
						left = left - m
					:: else /* nothing was committed: use the pair in the next round */
					fi
				}
				step();
				if
				:: KEEP_LAST && ok ->
					READ_LATE(c + m);
					assert(last == id);
					raw(id, 1, false);
					left--
				:: else
				fi;
				step();
				lock = NOBODY
			fi
		fi
	od;
	end(id);
out:	writers_done++
}

proctype Outsider(byte id; byte n) {
	do
	:: n == 0 -> break
	:: else ->
		begin(id);
		if
		:: raw(id, UNITS, false) /* two parts in a message of the least charge */
		:: raw(id, UNITS, true)
		fi;
		end(id);
		id++;
		n--
	od;
	writers_done++
}

inline take_memory() {
	do
	:: seen < committed -> put(buffer[seen]); seen++
	:: else -> break
	od
}

/* Move parts from the pair to the buffer, or after a takeover to the daemon's own buffer. */
inline take_pair() {
	do
	:: (taken_over || committed - completed < ROOM) && kept_rest > 0 ->
		d_step {
			if
			:: taken_over
			:: else -> buffer[committed] = kept_id; committed++; seen++
			fi
		}
		put(kept_id);
		kept_rest--
	:: (taken_over || committed - completed < ROOM) && kept_rest == 0 && len(queue) > 0 ->
		/* The first part of the next message is copied before the message with the kept byte
		 * is dropped. */
		backlog = true;
		d_step {
			queue?<id, n, big>;
			if
			:: taken_over
			:: else -> buffer[committed] = id; committed++; seen++
			fi
		}
		put(id);
		atomic { queue?id, n, big; kept_id = id; kept_rest = n - 1; kept_big = big }
	:: kept_rest == 0 && len(queue) == 0 -> backlog = false; break
	:: !taken_over && committed - completed >= ROOM -> break
	od
}

/* The parts move to the daemon's own buffer, and the memory is empty. */
inline empty_memory() {
	d_step {
		i = 0;
		do
		:: i < UNITS * WRITES -> buffer[i] = NOBODY; i++
		:: else -> i = 0; break
		od
	}
}

inline take_over() {
#ifdef WITHOUT_END_FIRST
	take_memory();
	empty_memory();
	taken_over = true
#else
	taken_over = true;
	take_memory();
	empty_memory()
#endif
}

#define PENDING (kept_rest > 0 || len(queue) > 0)
#define NEWS    (seen < committed && !taken_over)

proctype Daemon() {
	byte i, id, n;
	bool big, waiting;
	do
	:: completed < seen && !taken_over -> completed = seen /* RDMA writes complete */
	:: event || (polled && (NEWS || (PENDING && (waiting || completed == seen)))) ->
		event = false;
		polled = true;
		if
		:: !taken_over -> take_memory() /* after a takeover the daemon ignores the memory */
		:: else
		fi;
		waiting = false;
		if
		:: PENDING && taken_over -> take_pair()
		:: PENDING && !taken_over ->
			atomic {
				if
				:: lock == NOBODY -> lock = DAEMON
				:: else -> waiting = true
				fi
			}
			if
			:: !waiting -> take_memory(); take_pair(); lock = NOBODY
			:: else
			fi
		:: else
		fi
	:: waiting && lock != NOBODY && PENDING && !taken_over -> /* its holder is dead, or slow */
		take_over();
		waiting = false;
		event = true
	:: polled && !event && !NEWS && (!PENDING || completed < seen) ->
		polled = false;
		if
		:: NEWS || BUSY -> polled = true
		:: else ->
			if /* asleep: completions and the pair's events wake it */
			:: event
			:: completed < seen && !taken_over -> completed = seen; polled = true
			:: writers_done == LIBRARY + 1 && !PENDING && (!NEWS || one_died) -> break
			fi
		fi
	:: polled && lock != NOBODY && writers_done == LIBRARY + 1 && !PENDING && !NEWS ->
		assert(one_died); /* its lock stays: the daemon looks again after longer and longer pauses */
		break
	od;
	/* Everything that was written has arrived. */
	assert((!NEWS || one_died) && !PENDING);
	i = 1;
	do
	:: i <= WRITES -> assert(!(ended & (1 << (i - 1))) || sent[i] == UNITS); i++
	:: else -> break
	od
}

init {
	atomic {
		kept_big = true; /* the plug */
		run Daemon();
		run Writer(1, 1, true);
#if LIBRARY > 1
		run Writer(2, 2, false);
#endif
		run Outsider(LIBRARY + 1, OUTSIDE)
	}
}
