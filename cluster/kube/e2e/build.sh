#!/bin/bash
# Builds kube-apiserver, kube-scheduler, kube-controller-manager and kubelet of the Kubernetes release that VERSION names, from the Go module proxy, and fetches etcd from Debian's archive. What was built is kept in
# ~/.cache/homenode/kube by release and Go version: about 700 s of CPU the first time, nothing after that. Prints the folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$here/VERSION")
staging=v0.${version#v1.}
export CGO_ENABLED=0 GOFLAGS="-mod=mod ${KUBE_GOFLAGS:-}" GOWORK=off
out=${XDG_CACHE_HOME:-$HOME/.cache}/homenode/kube/$version-$(go env GOVERSION)-$(go env GOARCH)
mkdir -p "$out"
exec 9>"$out/lock"
flock 9

if [ ! -x "$out/etcd" ]; then
	deb=$(mktemp -d)
	chmod 0755 "$deb"
	(cd "$deb" && apt-get download -qq etcd-server >&2 && dpkg -x etcd-server_*.deb x)
	install -m 0755 "$deb/x/usr/bin/etcd" "$out/etcd"
	rm -rf "$deb"
fi

missing=
for c in kube-apiserver kube-scheduler kube-controller-manager kubelet; do [ -x "$out/$c" ] || missing+=" $c"; done
if [ -n "$missing" ]; then
	mod=$(mktemp -d)
	cd "$mod"
	theirs=$(GOFLAGS= go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
	{
		printf 'module kubebuild\n\n%s\n\nrequire k8s.io/kubernetes %s\n' "$(grep -E '^go ' "$theirs")" "$version"
		# In k8s.io/kubernetes the staging modules are folders; the proxy has each as v0.MINOR.PATCH.
		{ awk '/=> \.\/staging/{print $1}' "$theirs"; awk '/k8s.io\/[a-z-]+ v0\.0\.0$/{print $1}' "$theirs"; } | sort -u | sed "s|.*|replace & => & $staging|"
	} >go.mod
	printf '//go:build tools\n\npackage tools\n\nimport (\n\t_ "k8s.io/kubernetes/cmd/kube-apiserver"\n\t_ "k8s.io/kubernetes/cmd/kube-controller-manager"\n\t_ "k8s.io/kubernetes/cmd/kube-scheduler"\n\t_ "k8s.io/kubernetes/cmd/kubelet"\n)\n' >tools.go
	go mod tidy -e >tidy.log 2>&1 || { tail -5 tidy.log >&2; exit 1; }
	for c in $missing; do
		echo "building $c $version" >&2
		go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$out/$c.new" "k8s.io/kubernetes/cmd/$c"
		mv "$out/$c.new" "$out/$c"
	done
	cd /
	rm -rf "$mod"
fi
echo "$out"
