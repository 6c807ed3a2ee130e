package v1

import (
	"context"

	"github.com/sandkasten/sandkasten/internal/pool"
)

// PoolStatus is what is ready for sessions that are about to come. Counts are
// since the daemon's start.
type PoolStatus struct {
	Enabled   bool        `json:"enabled" doc:"Whether this daemon keeps sandboxes ready."`
	Ready     int         `json:"ready" doc:"Of all images." example:"3"`
	MaxReady  int         `json:"max_ready" doc:"Of all images, at most." example:"100"`
	Unmatched int64       `json:"unmatched" doc:"Sessions that no image of the pool is for: of another image, or with another disk_mb or readonly_rootfs than the default." example:"12"`
	Short     string      `json:"short,omitempty" doc:"What the host is short of, so that the pool gives back what it has."`
	Images    []PoolImage `json:"images" nullable:"false"`
}

// PoolImage is one image of the pool.
type PoolImage struct {
	Image  string  `json:"image" example:"python"`
	Digest string  `json:"digest,omitempty" doc:"What the name stands for now; absent if the image cannot be had."`
	Auto   bool    `json:"auto" doc:"How many are wanted is learned: as many as were created in the busiest ten seconds of the last ten minutes."`
	Wanted int     `json:"wanted" example:"3"`
	Ready  int     `json:"ready" example:"3"`
	Hits   int64   `json:"hits" doc:"Sessions that got a ready sandbox." example:"240"`
	Misses int64   `json:"misses" doc:"Sessions that could have had a ready sandbox, and waited for theirs to be made." example:"7"`
	MakeMS float64 `json:"make_ms" doc:"The time to make one ready, on average; 0 before the first." example:"9.1"`
	Error  string  `json:"error,omitempty" doc:"Why there are fewer than wanted, if something is wrong."`
}

type poolOutput struct{ Body PoolStatus }

func (s *surface) poolStatus(context.Context, *struct{}) (*poolOutput, error) {
	return &poolOutput{viewPool(s.opts.Pool)}, nil
}

func viewPool(p *pool.Pool) PoolStatus {
	view := viewStatus(p.Status())
	view.Enabled = p != nil
	return view
}

// viewStatus is the status of a pool that there is.
func viewStatus(st pool.Status) PoolStatus {
	view := PoolStatus{
		Enabled: true, Ready: st.Ready, MaxReady: st.MaxReady, Unmatched: st.Unmatched, Short: st.Short,
		Images: make([]PoolImage, 0, len(st.Images)),
	}
	for _, one := range st.Images {
		view.Images = append(view.Images, PoolImage{
			Image: one.Image, Digest: one.Digest, Auto: one.Auto, Wanted: one.Wanted, Ready: one.Ready,
			Hits: one.Hits, Misses: one.Misses, MakeMS: float64(one.MakeTime.Microseconds()) / 1000, Error: one.Err,
		})
	}
	return view
}
