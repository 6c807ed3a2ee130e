// Package maintenance is what an operator's commands do with the data directory of
// a daemon, beside it or in its place: backup, restore, recover, fsck and gc. It
// reads what there is and leaves the comparison to package fsck. What takes a whole
// daemon, as fsck --repair, is the daemon's.
package maintenance
