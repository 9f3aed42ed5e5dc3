/* SPDX-License-Identifier: MIT */
/*
 * The receiving half of a shared connection (docs/data-path.md), in every order of steps: the daemon,
 * two readers of the library, of which one may die at any step, and an outsider that reads the pair
 * with plain system calls. The value of a byte is its place in the stream: each reader must take the
 * next bytes. Now and then the connection is reset: the memory is given away, and is empty. Or the
 * daemon is killed, and nobody changes the memory any more.
 *
 * run.sh also explores the protocol with single rules left out (WITHOUT_..): then SPIN must find an
 * error.
 */
#ifndef LAST
#define LAST 3 /* bytes of the stream */
#endif
#define HEAD 1 /* bytes that the daemon forwards at once */
#define WANT 2 /* bytes that one call of a reader wants */

/* ---- shared memory */
byte produced;   /* published by the daemon: bytes that have arrived */
byte taken;      /* the word that readers and the daemon move by compare and swap */
bool forwarding; /* the flag bit of the same word */
bool over;       /* the same bit, for ever: the daemon has ended the path */
bool emptied;    /* the pages are others' now: whoever copies them gets zeros */
byte at_work;    /* readers that say so; a dead one says so for ever */

/* ---- the pair: bytes [pair_first, pair_first + pair_count) of the stream are queued */
byte pair_first, pair_count;
bool event; /* tells the daemon that something was read from the pair */
bool reset; /* the daemon's end is closed */

/* ---- the daemon and the observer */
bool longer;         /* a head was made longer while nobody had read it */
bool patience_ended; /* with a reader that is at work and does not end */
byte next;           /* the next bytes that are taken must begin here */

/* recv() is one step, because the kernel locks the queue. */
inline take_pair(want, got) {
	d_step {
		got = (pair_count < want -> pair_count : want);
		if
		:: got > 0 ->
			assert(pair_first == next);
			next = next + got;
			pair_first = pair_first + got;
			pair_count = pair_count - got;
			event = true
		:: else
		fi
	}
}

/* The process may be killed here. */
inline step() {
	if
	:: mortal -> goto out
	:: true
	fi
}

#ifdef WITHOUT_COMPARE
#define UNCHANGED true
#else
#define UNCHANGED (taken == t && !forwarding && !over)
#endif

proctype Reader(bool mortal) {
	byte t, h, n;
	bool zeros;
	do
	:: next == LAST || reset -> break
	:: else ->
		at_work++;
		step();
		atomic {
			n = 0;
			h = 0;
			if
#ifndef WITHOUT_FLAG
			:: forwarding || over -> goto wait /* a head is on its way */
#endif
			:: else -> t = taken
			fi
		}
		step();
#ifndef WITHOUT_HEAD_FIRST
		take_pair(WANT, h);
		step();
#endif
		if
		:: h < WANT && t < produced ->
			n = (produced - t < WANT - h -> produced - t : WANT - h);
			step();
			zeros = emptied; /* the bytes are copied */
			atomic {
				if
				:: UNCHANGED ->
					assert(t == next && !zeros);
					next = next + n;
					taken = t + n
				:: else -> n = 0
				fi
			}
			step()
		:: else
		fi;
wait:		at_work--;
		if
		:: h + n > 0
		:: else -> /* a recv() that blocks */
			if
			:: atomic { pair_count > 0 -> take_pair(WANT, h) }
			:: next == LAST || reset
			fi
		fi
	od;
out:	skip
}

proctype Outsider() {
	byte h;
	do
	:: next == LAST || reset -> break
	:: atomic { pair_count > 0 -> take_pair(1, h) }
	od
}

/* There are bytes, but nothing in the pair tells outsiders about them. */
#define OWES_HEAD (taken < produced && pair_count == 0)

inline forward() {
	t = taken;
	n = (produced - t < HEAD -> produced - t : HEAD);
	atomic {
		if
		:: taken == t && n > 0 -> taken = t + n; forwarding = true
		:: else -> n = 0
		fi
	}
	if
	:: n > 0 ->
		d_step {
			if :: pair_count == 0 -> pair_first = t :: else fi;
			pair_count = pair_count + n
		}
		forwarding = false
	:: else
	fi
}

/* The engine gives the memory away. */
inline give_away() {
#ifdef WITHOUT_END_FIRST
	emptied = true;
	over = true
#else
	over = true;
	emptied = true
#endif
}

proctype Daemon() {
	byte t, n;
	do
	:: give_away(); reset = true; break
	:: reset = true; break /* it is killed */
	:: produced < LAST -> produced++
	:: event -> event = false
	:: OWES_HEAD && at_work > 0 && !patience_ended -> patience_ended = true
	:: OWES_HEAD && (at_work == 0 || patience_ended) -> forward(); patience_ended = false
	:: taken < produced && pair_count == 1 && !longer -> longer = true; forward() /* nobody reads it */
#ifdef WITHOUT_CARE
	:: produced == LAST && !event ->
#else
	:: produced == LAST && !event && !OWES_HEAD ->
#endif
		if /* asleep */
		:: event
		:: next == LAST -> break
		fi
	od
}

init {
	atomic {
		run Daemon();
		run Reader(false);
		run Reader(true);
		run Outsider()
	}
}
