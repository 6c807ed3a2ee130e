. "$(dirname "$0")/root.sh"

deb() { DEBIAN_FRONTEND=noninteractive chroot "$root" dpkg --force-depends "$@"; }

deb -i /packages/sandkasten_1.0.0_amd64.deb
installed
use
deb -i /packages/sandkasten_1.1.0_amd64.deb
chroot "$root" dpkg-query -W -f '${Version}' sandkasten | grep -x 1.1.0
installed
kept

# Removed, and not purged: what was made stays.
deb -r sandkasten
removed
kept
deb -i /packages/sandkasten_1.1.0_amd64.deb
kept
deb -P sandkasten
removed
test ! -e "$root/etc/sandkasten"
test ! -e "$root/var/lib/sandkasten"
