#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where `make install` puts files, what `make uninstall` leaves, and the sources of packages. `make check-deb` tests
# the packages themselves.
bats_require_minimum_version 1.5.0
load common

setup() {
	case $HOSTS_BUILD in
	*/san) skip "what is installed does not depend on sanitizers" ;;
	esac
	root=$BATS_TEST_TMPDIR/root
}

# make_in GOAL PREFIX: make GOAL with DESTDIR=$root
make_in() {
	run -0 make -s -C "$HOSTS_ROOT" "$1" DESTDIR="$root" PREFIX="$2"
}

files() {
	(cd "$root" && find . ! -type d | sort)
}

@test "make install puts everything in its place and leaves a configuration alone" {
	make_in install /usr
	diff - <(files) < <({
		cat <<-'END'
		./etc/smcrd/smcrd.conf
		./usr/bin/smcr-run
		./usr/bin/smcrctl
		./usr/include/smcr.h
		./usr/lib/libsmcr.so
		./usr/lib/libsmcr.so.0
		./usr/lib/libsmcr.so.0.1.0
		./usr/lib/pkgconfig/smcr.pc
		./usr/lib/smcrd/libsmcr-preload.so
		./usr/lib/systemd/catalog/smcrd.catalog
		./usr/lib/systemd/system/smcrd.service
		./usr/lib/sysusers.d/smcrd.conf
		./usr/sbin/smcrd
		./usr/share/bash-completion/completions/smcrctl
		./usr/share/dbus-1/system.d/org.smcrd.conf
		./usr/share/zsh/site-functions/_smcrctl
		END
		for file in "$HOSTS_ROOT"/examples/*; do
			echo "./usr/share/doc/smcrd/examples/${file##*/}"
		done
		for file in "$HOSTS_ROOT"/etc/bpftrace/*; do
			echo "./usr/share/smcrd/bpftrace/${file##*/}"
		done
		for file in "$HOSTS_ROOT"/man/*; do
			echo "./usr/share/man/man${file##*.}/${file##*/}"
		done
	} | sort)
	[ "$(find "$root" -type f -perm -u=x | sort)" = "$root/usr/bin/smcr-run
$root/usr/bin/smcrctl
$root/usr/sbin/smcrd" ]
	grep -q '^ExecStart=/usr/sbin/smcrd --foreground$' "$root/usr/lib/systemd/system/smcrd.service"
	run ! grep -rIl '@[A-Z]*DIR@' "$root"
	echo "# mine" >"$root/etc/smcrd/smcrd.conf"
	make_in install /usr
	[ "$(cat "$root/etc/smcrd/smcrd.conf")" = "# mine" ]
	[[ $output != *"system bus"* ]]
}

@test "make install below another PREFIX than /usr says what the system bus needs" {
	for prefix in /usr/local /opt/smcr; do
		make_in install "$prefix"
		[ -e "$root$prefix/share/dbus-1/system.d/org.smcrd.conf" ]
		[[ $output == *"to have smcrd on it, cp $prefix/share/dbus-1/system.d/org.smcrd.conf /etc/dbus-1/system.d/" ]]
	done
}

# tree DIR: print everything below it
tree() {
	find "$1" | sort
}

@test "make uninstall takes away what make install put there, and nothing else" {
	for prefix in /usr /usr/local; do
		mkdir -p "$root$prefix/lib/smcrd.d" "$root$prefix/share/doc/other"
		touch "$root$prefix/lib/libsmcr.so.0.0.1" "$root$prefix/share/doc/other/smcrd"
		before=$(files)
		make_in install "$prefix"
		make_in uninstall "$prefix"
		diff <(echo "$before") <(files)
		# directories that others use stay, smcrd's own do not
		[ -d "$root$prefix/share/man/man8" ]
		[ "$(find "$root" -type d -name 'smcr*')" = "$root$prefix/lib/smcrd.d" ]
		rm -r "$root"
	done
}

@test "make uninstall removes the directories that the installation made, and no empty one that was there" {
	prefix=$BATS_TEST_TMPDIR/prefix
	# no directory existed
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix/a/b" SYSTEM_CONF="$root/none"
	make -s -C "$HOSTS_ROOT" uninstall PREFIX="$prefix/a/b"
	[ ! -e "$prefix" ]
	# some directories existed; a second installation makes none, and must not forget those of the first
	mkdir -p "$prefix/bin" "$prefix/lib/systemd" "$prefix/share/man/man8" "$prefix/var"
	before=$(tree "$prefix")
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix"
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix"
	make -s -C "$HOSTS_ROOT" uninstall PREFIX="$prefix"
	diff <(echo "$before") <(tree "$prefix")
	run -0 make -s -C "$HOSTS_ROOT" uninstall PREFIX="$prefix"
	[ -z "$output" ]
	diff <(echo "$before") <(tree "$prefix")
	# a directory of the installation stays if another program has put a file there
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix"
	touch "$prefix/include/other.h"
	make -s -C "$HOSTS_ROOT" uninstall PREFIX="$prefix"
	diff <(printf '%s\n' "$before" "$prefix/include" "$prefix/include/other.h" | sort) <(tree "$prefix")
}

@test "make uninstall leaves a configuration that was changed, and says so" {
	make_in install /opt/smcr
	mkdir "$root/opt/smcr/etc/smcrd/smcrd.conf.d"
	echo 'memory = 1G' >"$root/opt/smcr/etc/smcrd/smcrd.conf.d/10-mine.conf"
	make_in uninstall /opt/smcr
	[ "$(files)" = ./opt/smcr/etc/smcrd/smcrd.conf.d/10-mine.conf ]
	make_in install /opt/smcr
	echo 'memory = 1G' >>"$root/opt/smcr/etc/smcrd/smcrd.conf"
	make_in uninstall /opt/smcr
	[ "$output" = "$root/opt/smcr/etc/smcrd/smcrd.conf stays: it is not as it was installed" ]
	[ "$(files)" = "./opt/smcr/etc/smcrd/smcrd.conf
./opt/smcr/etc/smcrd/smcrd.conf.d/10-mine.conf" ]
}

@test "an installation below a PREFIX writes there only, and works from there" {
	prefix=$BATS_TEST_TMPDIR/prefix
	cache=$(stat -c %y /etc/ld.so.cache)
	make -s -C "$HOSTS_ROOT" install DESTDIR="$root" PREFIX=/opt/smcr
	[ "$(cd "$root" && find . -maxdepth 2 | sort | paste -sd ' ')" = ". ./opt ./opt/smcr" ]
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix" SYSTEM_CONF="$root/none"
	diff <(cd "$root/opt/smcr" && find . | sort) <(cd "$prefix" && find . ! -name made-directories | sort)
	[ "$(stat -c %y /etc/ld.so.cache)" = "$cache" ]
	grep -q "^ExecStart=$prefix/sbin/smcrd " "$prefix/lib/systemd/system/smcrd.service"

	# the configuration below PREFIX is the one that is read
	mkdir "$prefix/etc/smcrd/smcrd.conf.d"
	echo 'nonsense = 1' >"$prefix/etc/smcrd/smcrd.conf.d/10-mine.conf"
	run -1 "$prefix/sbin/smcrd" --check-config
	[[ $output == *"$prefix/etc/smcrd/smcrd.conf.d/10-mine.conf:1: nonsense: "* ]]
	run -0 "$prefix/bin/smcr-run" env
	[[ $output == *"LD_PRELOAD=$prefix/lib/smcrd/libsmcr-preload.so"* ]]
}

@test "slashes at the end of PREFIX and DESTDIR mean nothing" {
	make_in install /opt/smcr
	root=$root.slashes make_in install /opt/smcr/
	root=$root.more/// make_in install //opt/smcr//
	[[ $output == *" below $root.more/opt/smcr, "* ]]
	diff -r --no-dereference "$root" "$root.slashes"
	diff -r --no-dereference "$root" "$root.more"
	root=$root.more/// make_in uninstall /opt/smcr/
	[ -z "$(find "$root.more" ! -type d)" ]
	relative=$(realpath -m --relative-to="$HOSTS_ROOT" "$root.relative")
	make -s -C "$HOSTS_ROOT" install DESTDIR="$relative" PREFIX=/opt/smcr
	diff -r --no-dereference "$root" "$root.relative"
}

@test "an impossible PREFIX or DESTDIR is refused before anything is written" {
	for place in "PREFIX=$root/a b" "DESTDIR=$root/a b" "LIBDIR=$root/a	b" "PREFIX=$root/50%" "PREFIX=$root/it's" "PREFIX=$root/a;b" \
		"DESTDIR=$root/a:b"; do
		for goal in install uninstall; do
			run -2 make -s -C "$HOSTS_ROOT" "$goal" PREFIX=/opt/smcr DESTDIR="$root" "$place"
			[[ $output == *"$place: a blank or one of "*"choose another one"* ]]
		done
	done
	run -2 make -s -C "$HOSTS_ROOT" install DESTDIR="$root" PREFIX=opt
	[[ $output == *"PREFIX=opt: this is no absolute path"* ]]
	[ ! -e "$root" ]
	[ ! -e "$HOSTS_ROOT/opt" ]
}

@test "make install lays no default where smcrd has read another file, and says which it reads" {
	# the operator's configuration
	mkdir -p "$root/etc/smcrd/smcrd.conf.d"
	echo 'memory = 1G' >"$root/etc/smcrd/smcrd.conf"
	make_in install /usr/local
	[[ $output == *"its configuration is $root/etc/smcrd/smcrd.conf as before: no $root/usr/local/etc/smcrd/smcrd.conf was made"* ]]
	[ ! -e "$root/usr/local/etc" ]
	[ "$(cat "$root/etc/smcrd/smcrd.conf")" = 'memory = 1G' ]
	# only a drop-in
	mv "$root/etc/smcrd/smcrd.conf" "$root/etc/smcrd/smcrd.conf.d/10-mine.conf"
	make_in install /usr/local
	[ ! -e "$root/usr/local/etc" ]
	make_in uninstall /usr/local
	[ "$(files)" = ./etc/smcrd/smcrd.conf.d/10-mine.conf ]
	# with a configuration below PREFIX too, the installation tells that this one is read
	mkdir -p "$root/usr/local/etc/smcrd"
	echo 'memory = 2G' >"$root/usr/local/etc/smcrd/smcrd.conf"
	make_in install /usr/local
	[[ $output == *"its configuration is $root/usr/local/etc/smcrd/smcrd.conf, so $root/etc/smcrd/smcrd.conf is not read"* ]]
	[ "$(cat "$root/usr/local/etc/smcrd/smcrd.conf")" = 'memory = 2G' ]
}

# held FILE: print the names of the files in an archive of make dist
held() {
	tar -tzf "$1" | sed 's|^[^/]*/||' | sort
}

@test "make dist packs what git knows, an unpacked archive what it held, each to the same bytes every time" {
	[ -e "$HOSTS_ROOT/.git" ] || [ -e "$HOSTS_ROOT/MANIFEST" ] || skip "this tree is a mere copy of files"
	first=$BATS_TEST_TMPDIR/first.tar.gz
	"$HOSTS_ROOT/scripts/dist.sh" "$first"
	"$HOSTS_ROOT/scripts/dist.sh" "$first.again"
	cmp "$first" "$first.again"
	(umask 077 && tar -xzf "$first" -C "$BATS_TEST_TMPDIR")
	cd "$BATS_TEST_TMPDIR"/smcrd-*
	diff <(held "$first") <(find . ! -type d | sed 's|^\./||' | sort)
	# from the unpacked archive, with files that a build, an editor and a package have left there
	mkdir -p build debian/tmp
	touch build/old.o notes.txt debian/files debian/tmp/file
	make -s dist
	cmp "$first" build/smcrd-*.tar.gz
	# from a clone, in which a file is changed
	git init -q
	xargs -d '\n' -a MANIFEST git add -f --
	run -0 make -s dist
	[[ $output == *"dist: not packed, because git does not know them: debian/files debian/tmp/file notes.txt" ]]
	cmp "$first" build/smcrd-*.tar.gz
	echo '# changed' >>Makefile
	make -s dist
	diff <(held "$first") <(held build/smcrd-*.tar.gz)
	tar -xzOf build/smcrd-*.tar.gz --wildcards '*/Makefile' | grep -qx '# changed'
	# with another SOURCE_DATE_EPOCH the archive differs
	SOURCE_DATE_EPOCH=1000000000 scripts/dist.sh "$first.old"
	[ "$(TZ=UTC tar -tvzf "$first.old" | awk '{ print $4, $5 }' | sort -u)" = "2001-09-09 01:46" ]
	# with neither git nor MANIFEST dist.sh does not guess
	rm -rf .git MANIFEST
	run -1 scripts/dist.sh
	[[ $output == "dist: neither .git nor MANIFEST is here"* ]]
}

@test "install-deps.sh names an unknown option" {
	run -2 "$HOSTS_ROOT/scripts/install-deps.sh" --everything
	[[ $output == *"--everything: there is no such option"* ]]
}

@test "one version: Makefile, Debian's changelog, spec" {
	version=$(sed -n 's/^VERSION := //p' "$HOSTS_ROOT/Makefile")
	[ "$(sed -n '1s/^smcrd (\(.*\)) .*/\1/p' "$HOSTS_ROOT/debian/changelog")" = "$version" ]
	[ "$(sed -n 's/^Version: *//p' "$HOSTS_ROOT/packaging/smcrd.spec")" = "$version" ]
	sed -n '/^%changelog/,$p' "$HOSTS_ROOT/packaging/smcrd.spec" | grep -q " - $version-1\$"
}

# dependencies NAME: print this list of install-deps.sh, a package a line.
dependencies() {
	sed -n "/^$1=(/,/)\$/p" "$HOSTS_ROOT/scripts/install-deps.sh" | sed "s/^$1=(//; s/)\$//; s/#.*//" |
		tr -s '\t ' '\n' | sed '/^$/d'
}

@test "make deps installs what the packages are built with" {
	# without debhelper's own names, and without packages that every Debian build has
	diff <(sed -n '/^Build-Depends:/,/^[^ ]*: *4/p' "$HOSTS_ROOT/debian/control" | grep -v ^Standards |
		sed 's/^Build-Depends://; s/[ ,]//g; s/([^)]*)//' | grep -v -e ^debhelper-compat -e ^dh-sequence | sort) \
		<(dependencies build | grep -vx -e gcc -e make -e libc6-dev -e linux-libc-dev | sort)
	[ "$(dependencies check | wc -l)" -ge 20 ]
	# the spec has every library for which the Makefile asks pkg-config
	# shellcheck disable=SC2013 # words of one line
	for name in $(sed -n 's/^PKGS := //p' "$HOSTS_ROOT/Makefile"); do
		grep -qx "BuildRequires:  pkgconfig($name)" "$HOSTS_ROOT/packaging/smcrd.spec"
	done
}

@test "Debian's symbols of libsmcr are those of its version map" {
	diff <(sed -n 's/^\t\(smcr_[a-z_]*\);$/\1/p' "$HOSTS_ROOT/lib/libsmcr/libsmcr.map") \
		<(sed -n 's/^ \(smcr_[a-z_]*\)@LIBSMCR_.*/\1/p' "$HOSTS_ROOT/debian/libsmcr0.symbols")
	grep -q '^libsmcr.so.0 libsmcr0 #MINVER#$' "$HOSTS_ROOT/debian/libsmcr0.symbols"
	[ "$(sed -n 's/^LIBSMCR_SONAME := //p' "$HOSTS_ROOT/Makefile")" = libsmcr.so.0 ]
}

# left_by PATTERN..: print those files of standard input that no pattern matches, neither they nor a directory above
left_by() {
	local file pattern
	while read -r file; do
		for pattern in "$@"; do
			# shellcheck disable=SC2053 # patterns
			if [[ ${file#./} == ${pattern#/} || ${file#./} == ${pattern#/}/* ]]; then
				continue 2
			fi
		done
		echo "$file is in no package"
	done
}

@test "every file that is installed is in a package, of Debian and of the spec" {
	make -s -C "$HOSTS_ROOT" install DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib/multiarch UNITDIR=/lib/systemd/system \
		ZSHDIR=/usr/share/zsh/vendor-completions
	mapfile -t patterns < <(sed 's/^.* \([^ ]*\)$/\1/' "$HOSTS_ROOT"/debian/*.install)
	[ "$(files | wc -l)" -ge 50 ]
	diff /dev/null <(files | left_by "${patterns[@]}")
	rm -r "$root"
	make -s -C "$HOSTS_ROOT" install DESTDIR="$root" PREFIX=/usr LIBDIR=/usr/lib64 PRELOADDIR=/usr/lib64/smcrd
	mapfile -t patterns < <(sed -n '/^%files/,/^%changelog/s/^\(%config[^ ]* \)\?\(%{_.*\)/\2/p' "$HOSTS_ROOT/packaging/smcrd.spec" |
		sed 's#%{_unitdir}#/usr/lib/systemd/system#; s#%{_sysusersdir}#/usr/lib/sysusers.d#
			s#%{_journalcatalogdir}#/usr/lib/systemd/catalog#; s#%{_mandir}#/usr/share/man#
			s#%{_docdir}#/usr/share/doc#; s#%{_datadir}#/usr/share#; s#%{_includedir}#/usr/include#
			s#%{_libdir}#/usr/lib64#; s#%{_bindir}#/usr/bin#; s#%{_sbindir}#/usr/sbin#; s#%{_sysconfdir}#/etc#')
	diff /dev/null <(files | left_by "${patterns[@]}")
}

@test "the examples for services and containers name what is installed" {
	prefix=$BATS_TEST_TMPDIR/prefix
	make -s -C "$HOSTS_ROOT" install PREFIX="$prefix"
	# the example is what smcr-run would write
	diff <("$prefix/bin/smcr-run" --unit nginx.service 2>/dev/null | sed '/^#/d; /^$/d') \
		<(sed '/^#/d; /^$/d' "$prefix/share/doc/smcrd/examples/nginx-over-smcr.conf")
	grep -qx "Environment=LD_PRELOAD=$prefix/lib/smcrd/libsmcr-preload.so" "$prefix/share/doc/smcrd/examples/web.container"
	grep -qx "Volume=$prefix/lib/smcrd:$prefix/lib/smcrd:ro" "$prefix/share/doc/smcrd/examples/web.container"
	run ! grep -rl '@[A-Z]*@' "$prefix/share/doc/smcrd/examples"
}
