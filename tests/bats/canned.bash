# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# A daemon that reads its answers from a file (canned_smcrd.py), for tests of how smcrctl shows them.

# canned REPLIES: start the daemon; it writes requests to $BATS_TEST_TMPDIR/asked
canned() {
	canned_down
	export SMCRD_SOCKET=$BATS_TEST_TMPDIR/canned.sock
	rm -f "$SMCRD_SOCKET"
	printf '%s' "$1" >"$BATS_TEST_TMPDIR/replies.json"
	setpriv --pdeathsig KILL "$BATS_TEST_DIRNAME/canned_smcrd.py" "$SMCRD_SOCKET" \
		"$BATS_TEST_TMPDIR/replies.json" "$BATS_TEST_TMPDIR/asked" 3>&- &
	CANNED_PID=$!
	until_true 10 canned_listens
}

canned_listens() {
	ss -Hlx src "$SMCRD_SOCKET" | grep -q .
}

# canned_down: returns when it has ended. While it lives, its socket looks as if the next one listened there.
canned_down() {
	[ -n "${CANNED_PID:-}" ] || return 0
	kill -KILL "$CANNED_PID" 2>/dev/null || true # it may stand still
	wait "$CANNED_PID" 2>/dev/null || true
	CANNED_PID=
}
