package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Mebibytes is a size in a flag: 512, 512m, 2g or 1.5GiB. A number alone is MiB.
type Mebibytes int64

// units are what a size may end with, in bytes. Letters mean powers of 1024, as for
// docker and systemd.
var units = map[string]float64{"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

// UnmarshalText reads a size that is a whole number of MiB, of one or more.
func (m *Mebibytes) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("%q is not a size of 1 MiB or more: write it as 512m, 2g or, in MiB, 512", text)
	s := strings.ToLower(strings.TrimSpace(string(text)))
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(s[len(digits):])
	bytes, known := units[strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || unit == "b" || unit == "i" || unit == "ib" {
		return wrong
	}
	mib := n * bytes / (1 << 20)
	if mib != math.Trunc(mib) || mib < 1 || mib > 1<<40 {
		return wrong
	}
	*m = Mebibytes(mib)
	return nil
}

// LimitMebibytes is a limit in a flag: a size, or 0 for the daemon's default, as for
// limits that are no sizes and in the API.
type LimitMebibytes int64

// UnmarshalText reads a size or 0.
func (m *LimitMebibytes) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*m = 0
		return nil
	}
	return (*Mebibytes)(m).UnmarshalText(text)
}

// Span is a time in a flag: 90s, 10m, 2h30m or 10d. A number alone is seconds.
type Span time.Duration

// Duration is the time.
func (s Span) Duration() time.Duration { return time.Duration(s) }

// UnmarshalText reads a time that is more than nothing.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := parseSpan(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time: write it as 90s, 10m, 2h30m or 10d, or in seconds as 90", text)
	}
	*s = Span(d)
	return nil
}

const day = 24 * time.Hour

func parseSpan(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return inRange(n * float64(time.Second))
	}
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil {
		return 0, err
	}
	whole, err := inRange(n * float64(day))
	if err != nil || rest == "" {
		return whole, err
	}
	more, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	return inRange(float64(whole) + float64(more))
}

// inRange refuses what a time cannot hold: infinity and what is no number included.
func inRange(ns float64) (time.Duration, error) {
	if !(math.Abs(ns) < math.MaxInt64) {
		return 0, strconv.ErrRange
	}
	return time.Duration(ns), nil
}

// Seconds is a Span of whole seconds: 0 only if the flag was not given.
type Seconds int64

// Duration is the time.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// UnmarshalText reads a time. Less than a second would ask for the daemon's default.
func (s *Seconds) UnmarshalText(text []byte) error {
	var span Span
	if err := span.UnmarshalText(text); err != nil {
		return err
	}
	if span.Duration() < time.Second {
		return fmt.Errorf("%q is less than a second", text)
	}
	*s = Seconds(span.Duration() / time.Second)
	return nil
}
