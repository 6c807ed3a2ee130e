package protocol

import "testing"

func TestAgree(t *testing.T) {
	for pong, want := range map[Pong]int{
		{Version: Version}:                             Version,
		{Version: Version, Min: MinVersion}:            Version,
		{Version: Version + 1, Min: Version}:           Version, // a newer runner that still speaks ours
		{Version: Version + 1}:                         0,
		{Version: Version + 3, Min: Version + 1}:       0,
		{Version: MinVersion - 1, Min: MinVersion - 1}: 0,
		{Version: MinVersion - 1}:                      0,
		{}:                                             0,
	} {
		if got, ok := pong.Agree(); ok != (want > 0) || ok && got != want {
			t.Errorf("%+v: %d, %v", pong, got, ok)
		}
	}
}
