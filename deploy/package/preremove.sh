#!/bin/sh
# Before the files go, and not at an upgrade: without the program nobody could end what runs. All sessions
# are stopped; their files stay in the data directory.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --quiet --now sandkasten.service || true
fi
# The program reads its configuration, and does nothing where no daemon ever ran.
sandkasten daemon --stop-sessions ||
	echo "Some sessions could not be stopped: they run on until the host restarts."
