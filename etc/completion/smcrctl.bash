# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Completion of smcrctl for bash: smcrctl itself tells which words may come, and asks smcrd for link
# groups, links and peers.

_smcrctl() {
	local line=${COMP_LINE:0:COMP_POINT} words cur word
	# Not COMP_WORDS, in which an IPv6 address is several words.
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=("")
	cur=${words[-1]}
	COMPREPLY=()
	word=${words[-2]-}
	[[ $word != -w || " ${words[*]} " != *" capture "* ]] || word=--write
	case $word in
	-s | --socket | --write | program)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	esac
	while IFS= read -r word; do
		COMPREPLY+=("$(printf %q "$word")")
	done < <(smcrctl --complete "${words[@]:1}" 2>/dev/null)
	# bash completes only the text behind the last colon.
	if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*:}"}"}")
	fi
}

complete -F _smcrctl smcrctl
