#!/bin/bash
# Boots the guest of this folder under QEMU and prints its verdict. Needs root
# once, for apt; after that any user. Exit status 0: all that was held is true.
#
#   run.sh [DIR]     DIR keeps packages and images between runs; default build/zerocopy
#
# NIC=virtio (default) grants zero copy; NIC=refuse is the same card without the
# option that makes it grant, and holds the refusal.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mkdir -p "${1:-build/zerocopy}" && cd "${1:-build/zerocopy}" && pwd)
mkdir -p "$dir"/{deb,lists/partial,kernel,root}
say() { echo "zerocopy: $*"; }

# QEMU of this system; kernel and modules of Debian's backports, which alone have
# zero copy in virtio-net, from a private view of apt: unpacked, never installed.
install_tools() {
	local need=()
	for p in qemu-system-x86 cpio xz-utils; do dpkg -s "$p" >/dev/null 2>&1 || need+=("$p"); done
	((${#need[@]})) || return 0
	say "installing ${need[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${need[@]}" </dev/null >/dev/null
}

fetch_kernel() {
	[ -z "$(find "$dir/kernel" -name 'vmlinuz*' -type f)" ] || return 0
	local mirror version packages apt
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | grep -v security | head -1)
	echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie-backports main" >"$dir/sources.list"
	apt=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::Lists=$dir/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
		-o APT::Sandbox::User=root -o Acquire::Languages=none)
	apt-get "${apt[@]}" update -qq
	version=$(apt-cache "${apt[@]}" show linux-image-cloud-amd64 |
		sed -n 's/^Depends:.*linux-image-\([0-9][^ ]*\)-cloud-amd64 .*/\1/p' | sort -V | tail -1)
	say "kernel $version"
	packages=("linux-image-$version-cloud-amd64")
	if apt-cache "${apt[@]}" show "linux-binary-$version-cloud-amd64" >/dev/null 2>&1; then
		packages=("linux-binary-$version-cloud-amd64" "linux-modules-$version-cloud-amd64")
	fi
	(cd "$dir/deb" && apt-get "${apt[@]}" download -qq "${packages[@]}")
	for d in "$dir"/deb/*.deb; do dpkg -x "$d" "$dir/kernel"; done
}

# The guest's whole userland is two static programs.
build_image() {
	rm -rf "$dir/root" && mkdir -p "$dir"/root/{bin,mod,proc,sys,dev,run,tmp}
	CGO_ENABLED=0 go build -trimpath -o "$dir/root/init" ./perf/zerocopy
	CGO_ENABLED=0 go build -trimpath -o "$dir/root/bin/flanxd" ./cmd/flanxd
	for m in failover net_failover virtio_net tun; do
		f=$(find "$dir/kernel" -name "$m.ko.xz" | head -1)
		[ -z "$f" ] || xz -dc "$f" >"$dir/root/mod/$m.ko"
	done
	(cd "$dir/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initramfs.gz"
}

# No KVM, no network: two cards on one hub inside QEMU. The cards grant zero copy
# only if their queues have a DMA device of their own, which iommu_platform gives.
boot() {
	local nic=disable-legacy=on,iommu_platform=on expect=zerocopy kernel
	[ "${NIC:-virtio}" = virtio ] || { nic=disable-legacy=on && expect=refusal; }
	kernel=$(find "$dir/kernel" -name 'vmlinuz*' -type f | head -1)
	timeout -k 5 "${LIMIT:-420}" qemu-system-x86_64 -accel tcg -M q35 -cpu max,-cx16 -smp 1 -m 768 \
		-display none -nodefaults -no-user-config -serial stdio -monitor none -no-reboot \
		-kernel "$kernel" -initrd "$dir/initramfs.gz" \
		-append "console=ttyS0 panic=-1 mitigations=off quiet flanx.expect=$expect" \
		-netdev hubport,id=h0,hubid=0 -netdev hubport,id=h1,hubid=0 \
		-device "virtio-net-pci,netdev=h0,mac=02:00:00:00:00:01,$nic,romfile=" \
		-device "virtio-net-pci,netdev=h1,mac=02:00:00:00:00:02,$nic,romfile=" \
		</dev/null 2>&1 | sed -u 's/\r//g; s/\x1b[\[c][?0-9;]*[a-zA-Z]//g' | tee "$dir/console-$expect.log"
	grep -qE '^[1-9][0-9]* passed, 0 failed$' "$dir/console-$expect.log" || {
		say "$expect: not held"
		exit 1
	}
	say "$expect: held"
}

install_tools
fetch_kernel
build_image
boot
