# Makes $root, a root file system to change, of $1 with its changes in $3.
rootfs=$1 packages=$2 work=$3
mount -t tmpfs work "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay -o "lowerdir=$rootfs,upperdir=$work/upper,workdir=$work/work" overlay "$work/root"
root=$work/root
# It was made without documentation, and packages installed in it would be, too.
rm -f "$root"/etc/dpkg/dpkg.cfg.d/*
mount -t proc proc "$root/proc"
mkdir "$root/packages"
cp "$packages"/* "$root/packages/"

# What both kinds install.
installed() {
	test -x "$root/usr/bin/sandkasten"
	chroot "$root" sandkasten version
	chroot "$root" sandkasten doctor --help >"$work/help"
	test -s "$root/usr/lib/systemd/system/sandkasten.service"
	test -s "$root/usr/share/man/man1/sandkasten-exec.1"
	test -s "$root/usr/share/bash-completion/completions/sandkasten"
	test "$(stat -c %a "$root/etc/sandkasten/sandkasten.yaml")" = 600
}

removed() {
	test ! -e "$root/usr/bin/sandkasten"
	test ! -e "$root/usr/lib/systemd/system/sandkasten.service"
	test ! -e "$root/usr/share/man/man1/sandkasten-exec.1"
}

# What the administrator and the daemon have made by then.
use() {
	echo "max_sessions: 7" >"$root/etc/sandkasten/sandkasten.yaml"
	mkdir -p "$root/var/lib/sandkasten/images"
	echo kept >"$root/var/lib/sandkasten/images/file"
}

kept() {
	grep -q "max_sessions: 7" "$root/etc/sandkasten/sandkasten.yaml"
	grep -q kept "$root/var/lib/sandkasten/images/file"
}
