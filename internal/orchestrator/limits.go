package orchestrator

import (
	"math"
	"strconv"
	"strings"

	"github.com/sandkasten/sandkasten/internal/errdefs"
	"github.com/sandkasten/sandkasten/internal/runtime"
)

// units are those of quantities, as Kubernetes and Docker write them. All are
// powers of 1024: nobody who writes 2g means less than 2Gi.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1 << 10, "kb": 1 << 10, "ki": 1 << 10, "kib": 1 << 10,
	"m": 1 << 20, "mb": 1 << 20, "mi": 1 << 20, "mib": 1 << 20,
	"g": 1 << 30, "gb": 1 << 30, "gi": 1 << 30, "gib": 1 << 30,
	"t": 1 << 40, "tb": 1 << 40, "ti": 1 << 40, "tib": 1 << 40,
}

// limitsOf are the limits that a session asks for.
func limitsOf(cpu, memory, storage string) (limits runtime.Limits, err error) {
	if limits.CPU, err = cores(cpu); err != nil {
		return limits, err
	}
	if limits.MemoryMB, err = mebibytes("memory", memory); err != nil {
		return limits, err
	}
	limits.DiskMB, err = mebibytes("ephemeral_storage", storage)
	return limits, err
}

// cores reads "2", "0.5" or "500m"; "" is 0.
func cores(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, milli := strings.CutSuffix(text, "m")
	value, ok := positive(number)
	if milli {
		value /= 1000
	}
	if !ok {
		return 0, errdefs.Invalid("cpu", "must be a number of cores, as 2, 0.5 or 500m")
	}
	return value, nil
}

// mebibytes reads "2Gi", "512m" or a number of bytes, rounded up; "" is 0.
func mebibytes(field, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number := strings.TrimRight(text, "BKMGTibkmgt")
	unit, known := units[strings.ToLower(text[len(number):])]
	value, ok := positive(number)
	if bytes := value * unit; known && ok && bytes <= 1<<60 {
		return int64(math.Ceil(bytes / (1 << 20))), nil
	}
	return 0, errdefs.Invalid(field, "must be an amount, as 512Mi or 2Gi")
}

func positive(text string) (float64, bool) {
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && value > 0 && !math.IsInf(value, 0)
}
