package snapshots

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandkasten/sandkasten/internal/auth"
	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/session/quota"
)

// Usage is what the principal's archives take together, those included that are
// being made or removed, and what they may take: 0 is no maximum.
func (s *Snapshots) Usage(ctx context.Context, p auth.Principal) (bytes, most int64, err error) {
	all, err := s.keeper.rowsOf(ctx, p)
	return total(all), s.keeper.quotas.QuotaOf(p).SnapshotBytes, err
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

// room returns what p's owner has left for one more archive, at most MaxBytes.
// It returns InsufficientSpace if that is nothing.
func (k *Keeper) room(ctx context.Context, p auth.Principal) (room, error) {
	r := room{k.opts.MaxBytes, errdefs.New(errdefs.TooLarge, "the snapshot has more than %d bytes, which is the limit; leave something out", k.opts.MaxBytes)}
	most := k.quotas.QuotaOf(p).SnapshotBytes
	if most == 0 {
		return r, nil
	}
	all, err := k.opts.Store.SnapshotsOf(ctx, p.Owner)
	if err != nil {
		return room{}, err
	}
	left := most - total(all)
	if left >= k.opts.MaxBytes {
		return r, nil
	}
	r = room{left, OverTotal(total(all), most, advice(all))}
	if left <= 0 {
		return room{}, r.over
	}
	return r, nil
}

// roomFor is room, and that of the host for a session that ends.
func (k *Keeper) roomFor(ctx context.Context, p auth.Principal, req Request) (room, error) {
	r, err := k.room(ctx, p)
	if err != nil || !req.Ends || k.opts.RoomToEnd == nil {
		return r, err
	}
	left, err := k.opts.RoomToEnd()
	if err != nil || left >= r.bytes {
		return r, err
	}
	return room{max(left, 0), errdefs.New(errdefs.InsufficientSpace, "the host's disk has no room for the files, of which %d MiB could be saved now; make room in data_dir", max(left, 0)>>20)}, nil
}

// OverTotal refuses a snapshot of an owner whose snapshots have used bytes of most.
// advice says what to do.
func OverTotal(used, most int64, advice string) error {
	err := errdefs.New(errdefs.InsufficientSpace, "the snapshot has more than the %d MiB that are left of the %d MiB for the snapshots of this key (snapshots.max_total_mb); %s",
		max(most-used, 0)>>20, most>>20, advice)
	return err.OfQuota(errdefs.Quota{Name: quota.Snapshots, Used: float64(used >> 20), Limit: float64(most >> 20)})
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
