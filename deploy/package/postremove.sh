#!/bin/sh
# After the package is removed. With "purge", which only Debian knows, nothing of weir stays: neither what it kept, such
# as mail that was not delivered yet, nor its user.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
[ "$1" = purge ] || exit 0

rm -rf /etc/weir /var/log/weir /var/lib/weir /var/lib/weir-mail /var/lib/weir-xdp /run/weir-edge /run/weir-mail /run/weir-xdp
[ ! -d /run/weir-bpf ] || rmdir /run/weir-bpf || :
! getent passwd weir >/dev/null || userdel weir
! getent group weir >/dev/null || groupdel weir
