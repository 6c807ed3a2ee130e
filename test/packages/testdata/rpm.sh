. "$(dirname "$0")/root.sh"

rpms() { rpm --root "$root" --nodeps --nosignature "$@"; }

rpms -i "$packages"/sandkasten-1.0.0-1.x86_64.rpm
installed
use
rpms -U "$packages"/sandkasten-1.1.0-1.x86_64.rpm
rpm --root "$root" -q --qf '%{VERSION}' sandkasten | grep -x 1.1.0
kept
rpm --root "$root" -q --configfiles sandkasten | grep -x /etc/sandkasten/sandkasten.yaml
rpms -e sandkasten
removed
# A changed configuration stays under another name.
grep -q "max_sessions: 7" "$root"/etc/sandkasten/sandkasten.yaml.rpmsave
grep -q kept "$root/var/lib/sandkasten/images/file"
