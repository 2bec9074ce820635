# SPDX-License-Identifier: Apache-2.0
# Sourced by bash: an apt of our own (state, cache, sources), for any architecture and suite of Debian, which leaves the
# machine's alone. Before: `arch` (Debian's name), `cache` (folder), die(). MIRROR, SECURITY_MIRROR and KEYRING default to what
# the machine's own apt uses.
keyring=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}

apt_uri() { # LABEL -> the mirror that this machine's apt uses for it
	apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Identifier: Packages' 2> /dev/null |
		awk -v l="$1" '$1 == l { print $2; exit }'
}

apt_dir=
private() { # TOOL ARG...: apt with state of its own; of the machine's it sees the proxy settings only
	local tool=$1; shift
	"$tool" -q -o Dir::Etc::sourcelist="$apt_dir/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::Etc::preferencesparts="$apt_dir/none" -o Dir::State="$apt_dir" \
		-o Dir::State::status="$apt_dir/status" -o Dir::Cache="$apt_dir/cache" \
		-o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root \
		-o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Update::Error-Mode=any \
		-o Debug::NoLocking=1 "$@"
}

private_update() { # SUITE: points the private apt at it
	local mirror=${MIRROR:-$(apt_uri Debian)} security options
	[ -n "$mirror" ] || die "no Debian mirror in apt's sources: run apt-get update once, or set MIRROR"
	[ -r "$keyring" ] || die "no $keyring: install debian-archive-keyring"
	security=${SECURITY_MIRROR:-$(apt_uri Debian-Security)}
	apt_dir=$cache/apt/$arch-$1
	mkdir -p "$apt_dir/none" "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial"
	: > "$apt_dir/status"
	options="[arch=$arch signed-by=$keyring target=Packages pdiffs=no]"
	echo "deb $options $mirror $1 main" > "$apt_dir/sources.list"
	case $1 in
		sid | unstable | experimental | *-backports) ;;
		*) echo "deb $options ${security:-${mirror%/}-security} $1-security main" >> "$apt_dir/sources.list" ;;
	esac
	private apt-get update > "$apt_dir/log" 2>&1 || { cat "$apt_dir/log" >&2; die "apt-get update failed for $1"; }
}
