#!/usr/bin/env bash
# release.sh makes what a web server gives out; `make release` calls it.
#
#   release.sh may RELEASE         is this checkout a release, and can it be signed?
#   release.sh make DIST RELEASE   adds what `make dist` wrote to the folder RELEASE, signed
#   release.sh trees RELEASE       writes and signs the apt and yum indexes of what is in RELEASE
#
# KEY names the releaser's key in gpg (default: gpg's own default). URL is the address that
# serves RELEASE: with it, homenode.sources and homenode.repo are written, too.
# All but the signatures is the same for the same DIST and SOURCE_DATE_EPOCH.
set -euo pipefail
here=$(realpath "$(dirname "$0")/..")
export LC_ALL=C TZ=UTC

die() {
	echo "$*" >&2
	exit 1
}

# signer prints the fingerprint of the key that signs.
signer() {
	local found
	found=$(gpg --batch --with-colons --list-secret-keys ${KEY:+"$KEY"} 2>/dev/null | awk -F: '$1 == "fpr" { print $10; exit }')
	[ -n "$found" ] || die "gpg has no secret key${KEY:+ of $KEY}: KEY=FINGERPRINT names the releaser's key"
	echo "$found"
}

# sign FILE writes FILE.asc.
sign() { gpg --batch --yes --quiet --digest-algo SHA512 -u "$fingerprint" --armor --detach-sign -o "$1.asc" "$1"; }

may() {
	local said version
	said=$(cat "$here/VERSION")
	version=$(sh "$here/scripts/version.sh")
	[ "$version" = "${said/-/\~}" ] || die "this checkout is $version and not the release $said: commit everything and tag that commit: git tag -s v$said"
	grep -qE "^## ${said//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" "$here/CHANGELOG.md" || die "CHANGELOG.md has no section '## $said (YYYY-MM-DD)': give Unreleased its number and date"
	[ ! -e "$1/$version" ] || die "$1/$version is there already: a release is made once; what is wrong with it needs a new number"
	fingerprint=$(signer)
}

make_release() {
	local dist=$1 out=$2 version suite final name
	version=$(sh "$here/scripts/version.sh")
	suite=stable
	case $version in *~*) suite=candidate ;; esac
	(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
	[ ! -e "$out/$version" ] || die "$out/$version is there already"
	mkdir -p "$out"
	# All is made and signed beside what is given out, and takes its place last.
	final=$out
	out=$(mktemp -d "$final/.making.XXXXXX")
	making=$out
	trap 'rm -rf "$making"' EXIT
	for name in apt yum; do
		[ ! -e "$final/$name" ] || cp -a "$final/$name" "$out/"
	done
	mkdir -p "$out/apt/pool/$suite" "$out/yum/$suite" "$out/$version"
	cp "$dist"/* "$out/$version/"
	cp "$dist"/*.deb "$out/apt/pool/$suite/"
	cp "$dist"/*.rpm "$out/yum/$suite/"
	chmod -R u=rwX,go=rX "$out/$version" "$out/apt" "$out/yum"
	sign "$out/$version/SHA256SUMS"
	# The time of a file is in the index of yum.
	find "$out/$version" "$out/apt/pool/$suite" "$out/yum/$suite" -type f -newermt "@$SOURCE_DATE_EPOCH" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
	trees "$out"
	sh "$here/scripts/verify.sh" "$out/$version/SHA256SUMS" "$out/$version/SHA256SUMS.asc" "$out/homenode.asc" || die "the new signature does not verify"
	mkdir "$out/.before"
	for name in "$out"/*; do
		name=${name##*/}
		[ ! -d "$final/$name" ] || mv "$final/$name" "$out/.before/"
		mv "$out/$name" "$final/$name"
	done
	out=$final
	set -- "$here"/packaging/keys/*.asc
	if [ ! -e "$1" ] || ! sh "$here/scripts/verify.sh" "$out/$version/SHA256SUMS" "$out/$version/SHA256SUMS.asc" "$@"; then
		echo "note: packaging/keys does not have the key $fingerprint: \`make run\` of this source will not use this release"
	fi
	echo "$version is in $out, signed by $fingerprint"
}

# trees OUT writes the indexes of all packages in OUT, and how to use them.
trees() {
	local out=$1 suite a release
	gpg --batch --yes --quiet --armor --export-options export-minimal --export "$fingerprint" >"$out/homenode.asc"
	for suite in stable candidate; do
		[ -n "$(find "$out/apt/pool/$suite" -name '*.deb' 2>/dev/null)" ] || continue
		rm -rf "$out/apt/dists/$suite"
		for a in amd64 arm64; do
			mkdir -p "$out/apt/dists/$suite/main/binary-$a"
			(
				cd "$out/apt"
				apt-ftparchive --arch "$a" packages "pool/$suite" >"dists/$suite/main/binary-$a/Packages"
				gzip -9nk "dists/$suite/main/binary-$a/Packages"
				xz -k "dists/$suite/main/binary-$a/Packages"
			)
		done
		release=$(apt-ftparchive -o APT::FTPArchive::Release::Origin=Homenode -o APT::FTPArchive::Release::Label=Homenode \
			-o APT::FTPArchive::Release::Suite=$suite -o APT::FTPArchive::Release::Codename=$suite \
			-o "APT::FTPArchive::Release::Architectures=amd64 arm64" -o APT::FTPArchive::Release::Components=main \
			release "$out/apt/dists/$suite" | sed "s/^Date: .*/Date: $(date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S') +0000/")
		echo "$release" >"$out/apt/dists/$suite/Release" # it must not be in its own list
		gpg --batch --yes --quiet --digest-algo SHA512 -u "$fingerprint" --clear-sign -o "$out/apt/dists/$suite/InRelease" "$out/apt/dists/$suite/Release"
		sign "$out/apt/dists/$suite/Release"
		mv "$out/apt/dists/$suite/Release.asc" "$out/apt/dists/$suite/Release.gpg"
	done
	for suite in stable candidate; do
		[ -n "$(find "$out/yum/$suite" -name '*.rpm' 2>/dev/null)" ] || continue
		rm -rf "$out/yum/$suite/repodata"
		createrepo_c --quiet --no-database --revision "$SOURCE_DATE_EPOCH" --set-timestamp-to-revision "$out/yum/$suite"
		sign "$out/yum/$suite/repodata/repomd.xml"
	done
	readme "${URL:-URL}" >"$out/README.md"
	if [ -n "${URL:-}" ]; then
		sources "$URL" >"$out/homenode.sources"
		repo "$URL" >"$out/homenode.repo"
	fi
	find "$out" -type d -exec chmod 755 {} +
	chmod -R go+rX "$out"
}

sources() {
	cat <<-S
		Types: deb
		URIs: $1/apt
		Suites: stable
		Components: main
		Signed-By: /etc/apt/keyrings/homenode.asc
	S
}

# Signed are the indexes, which have the sums of the packages: a package is the same bytes
# whoever builds it, which a signature inside it would end.
repo() {
	cat <<-S
		[homenode]
		name=Homenode
		baseurl=$1/yum/stable
		repo_gpgcheck=1
		gpgcheck=0
		gpgkey=$1/homenode.asc
	S
}

readme() {
	cat <<-S
		# Homenode: releases

		$([ "$1" != URL ] || echo 'URL is the address at which this folder is served. ')The key is \`homenode.asc\`, fingerprint $fingerprint: compare it with the one in the source (packaging/keys).

		Debian and Ubuntu, as root:

		    install -d /etc/apt/keyrings
		    curl -fsSo /etc/apt/keyrings/homenode.asc $1/homenode.asc
		    cat >/etc/apt/sources.list.d/homenode.sources <<X
		$(sources "$1" | sed 's/^/    /')
		    X
		    apt update && apt install homenode

		Fedora, RHEL and their like, as root:

		    cat >/etc/yum.repos.d/homenode.repo <<X
		$(repo "$1" | sed 's/^/    /')
		    X
		    dnf install homenode

		By hand: a folder of a version has packages, an archive and a static binary for amd64 and arm64, container images (OCI), the Helm chart,
		the notes, the list of what is inside (CycloneDX), and \`SHA256SUMS\` with its signature:

		    gpg --import homenode.asc && gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --ignore-missing -c SHA256SUMS
	S
}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
fingerprint=
case ${1:-} in
may) may "$2" ;;
make) fingerprint=$(signer) && make_release "$(realpath "$2")" "$(realpath "$3")" ;;
trees) fingerprint=$(signer) && trees "$(realpath "$2")" ;;
*) die "usage: release.sh may RELEASE | make DIST RELEASE | trees RELEASE" ;;
esac
