# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # mode.bash and run read them
ABOUT="git daemon: push, clone, fetch, shallow clone, many at once, a refused push"
PACKAGES=(git)
LIMIT=60

git_b() {
	under b git -c user.name=a -c user.email=b "$@" 2>git.log
}

run() {
	local i
	export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
	git init -q --bare -b main repo.git
	git init -q --bare -b main closed.git
	touch repo.git/git-daemon-export-ok closed.git/git-daemon-export-ok
	git -C repo.git config daemon.receivepack true
	start_under a git daemon --reuseaddr --listen="$SERVER" --port=9418 --base-path="$DIR" --max-connections=40
	local daemon=$!
	listening a 9418
	git init -q -b main tree
	random_file tree/large 6000
	for i in $(seq 1 400); do echo "$i" >"tree/file$i"; done
	git -C tree add .
	git_b -C tree commit -qm one
	status push git_b -C tree push -q "git://$SERVER/repo.git" main
	status clone git_b clone -q "git://$SERVER/repo.git" cloned
	right clone.same diff -r --exclude .git tree cloned
	for i in $(seq 1 20); do
		echo "again $i" >>tree/file1
		git_b -C tree commit -qam "commit $i"
	done
	status push.more git_b -C tree push -q "git://$SERVER/repo.git" main
	status pull git_b -C cloned pull -q
	right pull.same diff -r --exclude .git tree cloned
	result log "$(git -C cloned rev-list --count main)"
	status shallow git_b clone -q --depth 1 "git://$SERVER/repo.git" shallow
	right shallow.same diff -r --exclude .git tree shallow
	result list "$(git_b ls-remote "git://$SERVER/repo.git" | cut -f2 | tr '\n' ' ')"
	status refused git_b -C tree push -q "git://$SERVER/closed.git" main
	status missing git_b clone -q "git://$SERVER/nothing.git" nothing
	result many "$(for i in $(seq 1 12); do git_b ls-remote "git://$SERVER/repo.git" & done | sort -u | wc -l)"
	kill "$daemon"
}
