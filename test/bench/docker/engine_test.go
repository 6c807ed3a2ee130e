package docker

import (
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

func TestOutputTakesOffTheFrames(t *testing.T) {
	frame := func(text string) string {
		return "\x01\x00\x00\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	s := &output{body: io.NopCloser(strings.NewReader(frame("one, ") + frame("two")))}
	if got, err := io.ReadAll(s); err != nil || string(got) != "one, two" {
		t.Errorf("%q, %v", got, err)
	}
}
