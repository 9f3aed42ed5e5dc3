#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# packaging/smcrd.spec. Debian's rpmbuild shows whether the spec is correct and names every file. The packages that it
# builds are linked to Debian's libraries, and fit no other system.
bats_require_minimum_version 1.5.0

ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

@test "rpmlint finds neither errors nor warnings in the spec" {
	run -0 rpmlint --strict "$ROOT/packaging/smcrd.spec"
	[[ $output == *" 0 errors, 0 warnings"* ]]
}

@test "rpmbuild makes the packages of what make dist has packed" {
	top=$BATS_TEST_TMPDIR/rpm
	version=$(sed -n 's/^VERSION := //p' "$ROOT/Makefile")
	make -s -C "$ROOT" dist
	# systemd's macros for directories, which Debian does not have
	rpmbuild -tb --nodeps --define "_topdir $top" --define '_unitdir /usr/lib/systemd/system' \
		--define '_sysusersdir /usr/lib/sysusers.d' \
		--define '_journalcatalogdir /usr/lib/systemd/catalog' \
		"$ROOT/build/smcrd-$version.tar.gz" >"$BATS_TEST_TMPDIR/log" 2>&1 || {
		tail -n 40 "$BATS_TEST_TMPDIR/log"
		return 1
	}
	for name in smcrd smcr-run libsmcr libsmcr-devel smcrd-doc; do
		[ -e "$(echo "$top"/RPMS/*/"$name-$version"-1*.rpm)" ]
	done
	rpm -qpl "$top"/RPMS/*/smcrd-"$version"-1*.rpm | grep -qx /usr/lib/systemd/system/smcrd.service
	# the configuration is marked as such, so that a changed one stays
	[ "$(rpm -qpc "$top"/RPMS/*/smcrd-"$version"-1*.rpm)" = /etc/smcrd/smcrd.conf ]
}
