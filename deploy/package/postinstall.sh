#!/bin/sh
# After the files are there: at the first installation the service is enabled and started, at an
# upgrade the daemon is restarted. Sessions go on without it.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# dpkg says "configure" and the version that was there before; rpm says how many versions there are now.
case "$1:${2-}" in
configure: | 1:*)
	systemctl enable --quiet sandkasten.service
	systemctl start sandkasten.service || echo "The daemon did not start: journalctl -u sandkasten tells why."
	;;
*)
	systemctl try-restart sandkasten.service || echo "The daemon did not start again: journalctl -u sandkasten tells why."
	;;
esac
