#!/bin/sh
# After the files are gone. dpkg says "purge" when the data is to go, too; rpm has no such thing, and
# /var/lib/sandkasten stays.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/sandkasten
	rmdir /etc/sandkasten 2>/dev/null || true
fi
