package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
)

// SnapshotUsage is what the archives of an owner take together, those included
// that are being made or removed, and what they may take: 0 is no maximum.
func (m *Snapshots) SnapshotUsage(ctx context.Context, owner string) (bytes, most int64, err error) {
	if !m.HasSnapshots() {
		return 0, 0, errNone()
	}
	all, err := m.opts.Store.ListSnapshots(ctx, owner)
	return total(all), m.opts.MaxTotal, err
}

func total(all []Snapshot) (bytes int64) {
	for _, s := range all {
		bytes += s.Size
	}
	return bytes
}

// room is how large an archive may get, and what is said of a larger one.
type room struct {
	bytes int64
	over  error
}

// room returns what an owner has left for one more archive, at most MaxBytes.
// It returns InsufficientSpace if that is nothing.
func (m *Snapshots) room(ctx context.Context, owner string) (room, error) {
	r := room{m.opts.MaxBytes, errdefs.New(errdefs.TooLarge, "the snapshot has more than %d bytes, which is the limit; leave something out", m.opts.MaxBytes)}
	if m.opts.MaxTotal == 0 {
		return r, nil
	}
	all, err := m.opts.Store.ListSnapshots(ctx, owner)
	if err != nil {
		return room{}, err
	}
	left := m.opts.MaxTotal - total(all)
	if left >= m.opts.MaxBytes {
		return r, nil
	}
	r = room{left, errdefs.New(errdefs.InsufficientSpace, "the snapshot has more than the %d MiB that are left of the %d MiB for the snapshots of this key (snapshots.max_total_mb); %s",
		max(left, 0)>>20, m.opts.MaxTotal>>20, advice(all))}
	if left <= 0 {
		return room{}, r.over
	}
	return r, nil
}

// advice names the largest of an owner's snapshots.
func advice(all []Snapshot) string {
	const most = 3
	all = slices.DeleteFunc(slices.Clone(all), func(s Snapshot) bool { return s.State != Ready })
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(b.Size, a.Size) })
	var largest []string
	for _, s := range all[:min(most, len(all))] {
		largest = append(largest, fmt.Sprintf("%s (%d MiB)", s.ID, s.Size>>20))
	}
	if len(largest) == 0 {
		return "wait for those that are being made or removed, or leave something out"
	}
	return "delete some, the largest are " + strings.Join(largest, ", ")
}
