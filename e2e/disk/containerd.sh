# disk/containerd.sh: containerd with CRI and NRI, and runc, for the guest in which pods
# run; sourced by fetch-disk.sh. e2e/hypervisor starts containerd. The one image, for
# pods' sandboxes and containers alike, is made here; what tests run comes from the second disk.
about='containerd and runc'
suite=forky
size=384M
packages=(containerd runc busybox-static base-files)
without=('./usr/lib/systemd/*' './usr/share/bash-completion/*' './usr/share/perl*' './usr/lib/*/perl*')

fill() {
	for applet in sh cat ls mount sleep; do [ -e "$tree/usr/bin/$applet" ] || ln -s busybox "$tree/usr/bin/$applet"; done
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >"$tree/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$tree/etc/group"
	echo '127.0.0.1 localhost' >"$tree/etc/hosts"
	: >"$tree/etc/resolv.conf"
	mkdir -p "$tree/var/log"
	image "$tree/image.tar"
	# For containers' roots, and because runc copies itself before each start where it has no
	# overlay to protect it.
	mv "$out/overlay.ko.xz" "$tree/"
	runtime
}

runtime() {
	mkdir -p "$tree/etc/containerd" "$tree/var/lib/containerd"
	# Version 2 is what containerd 1.7 and 2 both read.
	cat >"$tree/etc/containerd/config.toml" <<'E'
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/e2e/busybox:1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  # An emulated guest is slow: four times the default of two seconds.
  plugin_request_timeout = "8s"
  plugin_registration_timeout = "20s"
E
}

# image writes the one image of this disk.
image() { archive "$1" busybox busybox; }

# busybox fills the root of an image: busybox, and a place for what tests mount.
busybox() {
	mkdir -p "$1"/{bin,dev,proc,sys,tmp,etc,e2e,control}
	cp "$tree/usr/bin/busybox" "$1/bin/busybox"
	for applet in sh cat sleep; do ln -s busybox "$1/bin/$applet"; done
}

# archive FILE NAME CONTENT writes an OCI image archive (image-spec, image-layout.md): the root that command
# CONTENT fills, and a command that does nothing for ever.
archive() {
	local d=$out/image
	mkdir -p "$d"/{blobs/sha256,root}
	"$3" "$d/root"
	tar -C "$d/root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$d/layer" .
	local layer config manifest oci=application/vnd.oci.image
	layer=$(blob "$d" layer)
	printf '{"architecture":"amd64","os":"linux","config":{"Cmd":["/bin/sleep","2147483647"],"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["%s"]}}' "$layer" >"$d/config"
	local layerbytes configbytes
	layerbytes=$(stat -c %s "$d/blobs/sha256/${layer#*:}") configbytes=$(stat -c %s "$d/config")
	config=$(blob "$d" config)
	printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json","digest":"%s","size":%d},"layers":[{"mediaType":"%s.layer.v1.tar","digest":"%s","size":%d}]}' \
		$oci $oci "$config" "$configbytes" $oci "$layer" "$layerbytes" >"$d/manifest"
	local bytes
	bytes=$(stat -c %s "$d/manifest")
	manifest=$(blob "$d" manifest)
	printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s.manifest.v1+json","digest":"%s","size":%d,"annotations":{"io.containerd.image.name":"docker.io/e2e/%s:1","org.opencontainers.image.ref.name":"1"},"platform":{"architecture":"amd64","os":"linux"}}]}' \
		$oci "$manifest" "$bytes" "$2" >"$d/index.json"
	echo '{"imageLayoutVersion":"1.0.0"}' >"$d/oci-layout"
	tar -C "$d" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$1" oci-layout index.json blobs
	rm -rf "$d"
}

# blob files $1/$2 under its digest, which it prints.
blob() {
	local sum
	sum=$(sha256sum <"$1/$2" | cut -d' ' -f1)
	mv "$1/$2" "$1/blobs/sha256/$sum"
	echo "sha256:$sum"
}
