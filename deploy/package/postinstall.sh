#!/bin/sh
# After the package is unpacked: Debian calls it with "configure", rpm with the number of versions installed.
set -e

[ "$1" != abort-upgrade ] && [ "$1" != abort-remove ] && [ "$1" != abort-deconfigure ] || exit 0

getent group weir >/dev/null || groupadd --system weir
getent passwd weir >/dev/null || useradd --system --gid weir --no-create-home --home-dir /var/lib/weir \
	--shell /usr/sbin/nologin --comment 'weir throttling layer' weir

# Configurations may hold secrets.
for file in weir mail xdp; do
	[ ! -e /etc/weir/$file.yaml ] || { chown root:weir /etc/weir/$file.yaml && chmod 0640 /etc/weir/$file.yaml; }
done

for folder in weir weir-mail weir-xdp; do
	[ -d /var/lib/$folder ] || install -d -m 0700 -o weir -g weir /var/lib/$folder
done

# No service is started by itself: each needs a gate first. Those that run already go on with the new binary; where
# their sockets are handed to them, no connection is refused meanwhile.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	systemctl try-restart weir-edge.service weir-mail.service weir-xdp.service || :
fi
