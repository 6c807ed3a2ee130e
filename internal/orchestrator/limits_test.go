package orchestrator

import "testing"

func TestQuantities(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "2Gi": 2048, "2g": 2048, "2GB": 2048, "512Mi": 512, "512m": 512, "512M": 512, "1.5gib": 1536, "1048576": 1, "1": 1, "2Ki": 1, "1Ti": 1 << 20,
		"Gi": -1, "2Xi": -1, "-2Gi": -1, "0": -1, "2 Gi": -1, "NaN": -1, "Inf": -1, "1e40": -1, "2GiGi": -1,
	} {
		got, err := mebibytes("memory", text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]float64{"": 0, "2": 2, "0.5": 0.5, "500m": 0.5, "0": -1, "m": -1, "1Gi": -1, "-1": -1} {
		got, err := cores(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q are %g cores, want %g", text, got, want)
		}
	}
}
