package linux

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDivideRoom(t *testing.T) {
	for name, c := range map[string]struct {
		room        int64
		wants, want []int64
	}{
		"nobody":             {100, nil, []int64{}},
		"enough for all":     {100, []int64{10, 20, 30}, []int64{10, 20, 30}},
		"equal parts":        {90, []int64{100, 100, 100}, []int64{30, 30, 30}},
		"what one leaves":    {90, []int64{100, 10, 100}, []int64{40, 10, 40}},
		"none left":          {0, []int64{100, 10}, []int64{0, 0}},
		"more owed than is":  {-50, []int64{100, 10}, []int64{0, 0}},
		"one wants nothing":  {60, []int64{0, 100, 20}, []int64{0, 40, 20}},
		"less than a divide": {1, []int64{5, 5}, []int64{0, 1}},
	} {
		if diff := cmp.Diff(c.want, divideRoom(c.room, c.wants)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDirtyBytes(t *testing.T) {
	if n, err := dirtyBytes(); err != nil || n < 0 {
		t.Errorf("%d, %v", n, err)
	}
}
