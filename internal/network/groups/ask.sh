# Asks the package clients of an image where they download from. It prints one line for
# each address: the group, a tab and a URL. A line without a URL says that the client is
# there. No host stands here: each one is a client's own word.

has() { command -v "$1" >/dev/null 2>&1; }

# say prints the URLs among its input's lines as those of a group, and what git has in
# their place: user@host:path.
say() {
	printf '%s\t\n' "$1"
	grep -E '://|^[^/:]+@[^/:]+:' | while IFS= read -r url; do
		printf '%s\t%s\n' "$1" "$url"
	done
}

words() { tr -s ' ' '\n'; }

# toml_urls KEYS FILE...: the URLs that are the values of some keys, by an extended
# regular expression.
toml_urls() {
	keys=$1
	shift
	cat "$@" | sed 's/^[[:space:]]*#.*//' | tr '\n' ' ' |
		grep -oE "(^|[ {,])($keys) *= *(\[[^]]*\]|\"[^\"]*\"|'[^']*')" | grep -oE "[a-z+]+://[^\"' ]+"
}

ask_pip() {
	for python in python3 python; do
		# The simple index, its host, and the host of the files that it links to.
		builtin=$("$python" -c 'from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.netloc, PyPI.file_storage_domain)') || continue
		settings=$("$python" -m pip config list)
		urls=$(printf '%s\n' "$settings" | sed -n "s/^[^=]*\.\(extra-index-url\|index-url\|find-links\)=['\"]\(.*\)['\"]\$/\2/p" | sed 's/\\n/ /g' | words)
		# shellcheck disable=SC2086 # three words
		set -- $builtin
		case $settings in
		*.index-url=*) ;;
		*) urls="$1 $urls" ;;
		esac
		case $urls in
		*"//$2/"*) urls="$urls https://$3" ;;
		esac
		printf '%s\n' "$urls" | words | say pip
		return
	done
}

ask_uv() {
	has uv || return 0
	{
		set -- /etc/uv/uv.toml "${XDG_CONFIG_HOME:-$HOME/.config}/uv/uv.toml"
		[ -n "$UV_CONFIG_FILE" ] && set -- "$UV_CONFIG_FILE"
		if [ -z "$UV_DEFAULT_INDEX$UV_INDEX_URL" ] && ! grep -qE '^ *(index-url *=|default *= *true)' "$@"; then
			uv pip install --help | tr '\n' ' ' | grep -oE 'by +default: +<[^>]*' | sed 's/.*<//'
		fi
		# UV_INDEX may give its indexes names: name=URL.
		for value in "$UV_DEFAULT_INDEX" "$UV_INDEX_URL" "$UV_INDEX" "$UV_EXTRA_INDEX_URL" "$UV_FIND_LINKS"; do
			printf '%s\n' "$value" | words | sed 's/^[A-Za-z0-9_.-]*=//'
		done
		toml_urls 'index-url|extra-index-url|find-links|url' "$@"
	} | say pip
}

ask_npm() {
	has npm || return 0
	{
		npm config ls --json | sed -n 's/^ *"\(@[^"]*:\)\{0,1\}registry": *"\([^"]*\)".*/\2/p'
		has yarn && yarn config get registry
	} | say npm
}

ask_apt() {
	has apt-get || return 0
	# What `apt-get update` would load: apt reads its own sources.
	apt-get update --print-uris | sed -n "s|^'\([^']*://[^/']*\).*|\1|p" | sort -u | say apt
}

ask_go() {
	has go || return 0
	cd /
	{
		go env GOPROXY | tr ',|' '\n\n'
		sumdb=$(go env GOSUMDB)
		case $sumdb in
		off | '') ;;
		*' '*) printf '%s\n' "${sumdb##* }" ;;
		*) printf 'https://%s\n' "${sumdb%%+*}" ;;
		esac
	} | say go
}

ask_cargo() {
	has cargo || return 0
	home=${CARGO_HOME:-$HOME/.cargo}
	{
		# Cargo names its index when it cannot reach it, as here.
		mkdir -p /tmp/ask-cargo/src && cd /tmp/ask-cargo || exit
		: >src/lib.rs
		printf '[package]\nname = "ask"\nversion = "0.0.1"\n[dependencies]\nany = "1"\n' >Cargo.toml
		CARGO_NET_RETRY=0 cargo generate-lockfile 2>&1 | sed -n 's/.*`\(https*:[^`]*\)`.*/\1/p'
		toml_urls 'index|registry' "$home/config.toml" "$home/config"
		env | sed -n 's/^CARGO_REGISTRIES_[A-Z0-9_]*_INDEX=//p'
		# Where an index keeps the files, if cargo has asked it before.
		cat "$home"/registry/index/*/config.json | sed -n 's/.*"dl" *: *"\([^"]*\)".*/\1/p'
	} | say cargo
}

ask_git() {
	has git || return 0
	git config --get-regexp '^url\..*\.insteadof$' | sed 's/^url\.\(.*\)\.[iI][^ .]* .*/\1/' | say git
}

exec 2>/dev/null </dev/null
export LC_ALL=C
for client in pip uv npm apt go cargo git; do
	"ask_$client" &
done
wait
