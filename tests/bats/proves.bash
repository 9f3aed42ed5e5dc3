# SPDX-License-Identifier: MIT
# For bats tests: record which requirements of docs/requirements.tsv a test proves, like tests/lib/proves.h.
#
#     load proves
#     @test "data goes by RDMA" { ...; proves GEN-3 CDC-6; }
#
# Call it as the last statement of a test, so that only a test that passed is recorded.

# proves ID... - append "ID<tab>file:test" to the file that SMCR_PROOFS names; without SMCR_PROOFS do nothing.
# An unknown id fails the test.
proves() {
	local root id file
	root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
	for id in "$@"; do
		if ! grep -q "^$id	" "$root/docs/requirements.tsv"; then
			echo "$id is not in docs/requirements.tsv"
			return 1
		fi
	done
	[ -n "${SMCR_PROOFS:-}" ] || return 0
	file=${BATS_TEST_FILENAME#"$root"/}
	for id in "$@"; do
		printf '%s\t%s:%s\n' "$id" "$file" "$BATS_TEST_DESCRIPTION"
	done >>"$SMCR_PROOFS"
}
