# Runs in the machine, on a Debian with systemd, which is the first process of a process namespace here: the
# machine's own is the harness's. A line that begins with == says what the lines behind it look at.
mount --make-rshared /
mount -t tmpfs tmpfs /run
unshare --pid --fork --mount --mount-proc --kill-child env container=other /lib/systemd/systemd >/tmp/systemd.log 2>&1 &
trap 'tail -n 30 /tmp/systemd.log; [ -z "${init:-}" ] || on journalctl -n 50 --no-pager; true' ERR
until init=$(pgrep -x systemd | head -n 1) && [ -n "$init" ]; do sleep 0.2; done

on() { nsenter --target "$init" --pid --mount -- "$@"; }
ask() { on sandkasten "$@"; }
main() { on systemctl show --property MainPID --value sandkasten; }
fail() {
	echo "FAIL: $*"
	on journalctl -n 60 --no-pager || true
	exit 1
}
# until_ready COMMAND... waits for up to a minute.
until_true() {
	for _ in $(seq 120); do
		if "$@"; then return 0; fi
		sleep 0.5
	done
	fail "not within a minute: $*"
}
settled() { on systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; }
until_true settled

echo "== the package starts the service, which tells when it works"
on dpkg -i /test/1.0.0.deb
test "$(on systemctl is-active sandkasten)" = active
test "$(on systemctl is-enabled sandkasten)" = enabled
ask image import --name tiny --tar /test/tiny.tar
id=$(ask create tiny --memory 64)
ask exec "$id" 'cd /tmp; kept=yes; sleep 10000 & echo $!'
limit=$(find /sys/fs/cgroup/sandkasten -path "*$id*" -name memory.max -exec cat {} + | grep -x 67108864 | head -n 1)
test "$limit" = 67108864
alive() { test "$(ask exec "$id" 'echo $kept $(pwd)')" = "yes /tmp"; }
alive

echo "== systemd at work leaves limits and sessions alone"
on systemctl daemon-reload
printf '[Service]\nType=oneshot\nExecStart=/bin/true\nCPUQuota=50%%\nMemoryMax=100M\n' >/etc/systemd/system/limited.service
on systemctl daemon-reload
on systemctl start limited.service
on systemctl daemon-reload
test "$(find /sys/fs/cgroup/sandkasten -path "*$id*" -name memory.max -exec cat {} + | grep -x 67108864 | head -n 1)" = 67108864
alive

echo "== clients wait while it restarts, and are not refused"
before=$(main)
(while [ ! -e /tmp/done ]; do (exec 9<>/dev/tcp/127.0.0.1/8787) 2>/dev/null || echo refused >>/tmp/refused; done) &
knocking=$!
on systemctl restart sandkasten
touch /tmp/done
wait $knocking
test "$(main)" != "$before"
test ! -e /tmp/refused || fail "$(wc -l </tmp/refused) connections were refused"
alive

echo "== a daemon that was killed comes back"
before=$(main)
on kill -KILL "$before"
another() { now=$(main) && [ "$now" != 0 ] && [ "$now" != "$before" ] && test "$(on systemctl is-active sandkasten)" = active; }
until_true another
alive

echo "== a daemon that hangs is noticed by the watchdog"
mkdir -p /etc/systemd/system/sandkasten.service.d
printf '[Service]\nWatchdogSec=8\n' >/etc/systemd/system/sandkasten.service.d/watchdog.conf
on systemctl daemon-reload
on systemctl restart sandkasten
sleep 10 # it tells in time
before=$(main)
alive
test "$(main)" = "$before"
on kill -STOP "$before"
until_true another
alive

echo "== without the daemon sessions go on"
on systemctl stop sandkasten
pgrep -f 'sleep 10000' >/dev/null
on systemctl start sandkasten
alive

echo "== an upgrade goes on with them"
on dpkg -i /test/1.1.0.deb
test "$(on systemctl is-active sandkasten)" = active
alive

echo "== removing the package stops them and keeps their files"
ask exec "$id" 'echo kept > /workspace/file'
on dpkg -r sandkasten
if pgrep -f 'sleep 10000' >/dev/null; then fail "a program of a session is left"; fi
test -z "$(find /sys/fs/cgroup/sandkasten -mindepth 2 -name cgroup.procs -exec cat {} +)"
test ! -e /usr/bin/sandkasten
on dpkg -i /test/1.1.0.deb
on systemctl start sandkasten
ask start "$id"
test "$(ask exec "$id" 'cat /workspace/file')" = kept

echo "== a purge leaves nothing"
on dpkg -P sandkasten
test ! -e /var/lib/sandkasten
test ! -e /etc/sandkasten
if pgrep -f sandkasten >/dev/null; then fail "$(pgrep -af sandkasten)"; fi
on systemctl list-unit-files 'sandkasten*' | grep -q '^0 unit files'
kill -KILL "$init"
