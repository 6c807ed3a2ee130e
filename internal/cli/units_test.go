package cli

import (
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]Mebibytes{
		"512": 512, "512m": 512, "512M": 512, "512MiB": 512, "512mb": 512, "2g": 2048, "1.5GiB": 1536, "1t": 1 << 20, "1024k": 1, "2 g": 2048,
		"": -1, "m": -1, "0": -1, "-1": -1, "1.5": -1, "512b": -1, "1k": -1, "1x": -1, "nan": -1, "inf": -1, "1e99g": -1, "5ib": -1,
	} {
		var got Mebibytes
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q is %d MiB, %v", text, got, err)
		}
	}
}

// A limit of 0 is the default in the API and in flags that are numbers.
func TestLimitsOfSize(t *testing.T) {
	for text, want := range map[string]LimitMebibytes{"0": 0, "512": 512, "2g": 2048, "": -1, "0k": -1, "-1": -1, "x": -1} {
		got := LimitMebibytes(7)
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q is %d MiB, %v", text, got, err)
		}
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1": time.Second, "90": 90 * time.Second, "0.5": time.Second / 2, "90s": 90 * time.Second, "10d": 240 * time.Hour,
		"1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "2h30m": 150 * time.Minute, "100ms": 100 * time.Millisecond,
		"": -1, "0": -1, "-1": -1, "d": -1, "1d1": -1, "x": -1, "nan": -1, "inf": -1, "1e30": -1, "1d-2d": -1, "1w": -1,
	} {
		var got Span
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && got.Duration() != want {
			t.Errorf("%q is %s, %v", text, got.Duration(), err)
		}
	}
	var s Seconds
	if err := s.UnmarshalText([]byte("500ms")); err == nil {
		t.Error("half a second is taken for whole seconds")
	}
	if err := s.UnmarshalText([]byte("1")); err != nil || s != 1 {
		t.Errorf("1 is %d s, %v", s, err)
	}
}
