# apt.sh: what the fetch scripts share; sourced, with $cache set.

say() { echo "fetch: $*" >&2; }
die() { say "$*"; exit 1; }

# cache_folder prints the folder that everything fetched lies in.
cache_folder() {
	local dir=${HOMENODE_E2E_CACHE:-/var/cache/homenode-e2e}
	if ! mkdir -p "$dir" 2>/dev/null || ! [ -w "$dir" ]; then
		dir=$PWD/.e2e-cache
		mkdir -p "$dir"
		echo '*' >"$dir/.gitignore"
	fi
	(cd "$dir" && pwd)
}

# mirror_of reads the mirror that serves suite $1 out of the machine's own
# sources, one-line or deb822, so that no host name is written down here.
mirror_of() {
	{
		awk '$1=="deb" {sub(/\[[^]]*\] */,""); print $2, $3}' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true
		awk -v RS= '{u="";n=split($0,l,"\n"); s="";for(i=1;i<=n;i++){if(l[i]~/^URIs:/){split(l[i],a," ");u=a[2]} if(l[i]~/^Suites:/)s=l[i]}
			m=split(s,b," "); for(i=2;i<=m;i++) print u, b[i]}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true
	} | awk -v s="$1" '$2==s {print $1; exit}'
}

# install adds packages of the machine's own suite and never touches one that
# is there already.
install() {
	[ "$(id -u)" = 0 ] || die "not root, and missing: $*"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-upgrade --no-install-recommends \
		-o DPkg::Lock::Timeout=300 "$@" >"$cache/apt.log" 2>&1 ||
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-upgrade --no-install-recommends \
			-o DPkg::Lock::Timeout=300 "$@" >"$cache/apt.log" 2>&1; } ||
		{ tail -5 "$cache/apt.log" >&2; die "apt-get install $*"; }
}

# private makes an apt configuration that knows suite $1 of $mirror only, and no
# package as installed.
private() {
	local d=$cache/apt/$1
	mkdir -p "$d/lists/partial" "$d/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$d/sources.list"
	cat >"$d/apt.conf" <<-X
		Dir::Etc::SourceList "$d/sources.list";
		Dir::Etc::SourceParts "-";
		Dir::State::Lists "$d/lists";
		Dir::Cache "$d/cache";
		Dir::State::status "/dev/null";
		APT::Sandbox::User "root";
		Acquire::Retries "3";
	X
	APT_CONFIG=$d/apt.conf apt-get update -qq || return 1
	echo "$d/apt.conf"
}
