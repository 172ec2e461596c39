#!/bin/sh
# Before the package is removed: Debian calls it with "remove", rpm with 0. Nothing stops for an upgrade.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	for unit in weir-edge weir-mail; do
		systemctl disable --now $unit.socket || :
	done
	for unit in weir-edge weir-mail weir-xdp; do
		systemctl disable --now $unit.service || :
	done
fi
# Limits on packets outlive weir. They end with its package.
if grep -qs ' /run/weir-bpf ' /proc/mounts; then
	/usr/bin/weir xdp detach --all --pin /run/weir-bpf/weir || :
	umount /run/weir-bpf || :
fi
