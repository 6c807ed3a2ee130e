package runtime

import "testing"

func TestLimitsOr(t *testing.T) {
	defaults := Limits{CPU: 1, MemoryMB: 2, Pids: 3, DiskMB: 4}
	for asked, want := range map[Limits]Limits{
		{}:                       defaults,
		{CPU: 0.5, Pids: 9}:      {CPU: 0.5, MemoryMB: 2, Pids: 9, DiskMB: 4},
		{MemoryMB: 7, DiskMB: 8}: {CPU: 1, MemoryMB: 7, Pids: 3, DiskMB: 8},
	} {
		if got := asked.Or(defaults); got != want {
			t.Errorf("%+v: %+v, want %+v", asked, got, want)
		}
	}
}

func TestIDSaysItsDriver(t *testing.T) {
	for _, c := range []struct {
		id     ID
		driver string
		want   ID
	}{
		{"abc", Native, "abc"},
		{"abc", "docker", "docker_abc"},
		{"pool-1-abc", Native, "pool-1-abc"},
	} {
		if got := c.id.In(c.driver); got != c.want || got.Driver() != c.driver {
			t.Errorf("%s in %s: %s of %s, want %s", c.id, c.driver, got, got.Driver(), c.want)
		}
	}
}

func TestPassingID(t *testing.T) {
	for _, driver := range []string{Native, "docker"} {
		if id := NewPassingID().In(driver); !id.Passing() || id.Driver() != driver {
			t.Errorf("%s in %s: %v", id, driver, id.Passing())
		}
	}
	for _, id := range []ID{"", "abc", "docker_abc", "pool-1-abc", "docker_pool-1-abc", "passing_abc"} {
		if id.Passing() {
			t.Errorf("%s is taken for one", id)
		}
	}
}
