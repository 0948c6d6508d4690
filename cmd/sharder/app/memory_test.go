package app

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, test := range map[string]struct {
		limit, goLimit string
		want           int64
		fails          bool
	}{
		"container limit":        {limit: "268435456", want: 268435456 / 10 * 9},
		"none":                   {want: math.MaxInt64},
		"GOMEMLIMIT is set, too": {limit: "268435456", goLimit: "1GiB", want: math.MaxInt64},
		"not a number":           {limit: "256Mi", want: math.MaxInt64, fails: true},
		"zero":                   {limit: "0", want: math.MaxInt64, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv(memoryLimit, test.limit)
			t.Setenv("GOMEMLIMIT", test.goLimit)
			if err := limitMemory(); (err != nil) != test.fails {
				t.Errorf("the error is %v", err)
			}
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("the limit is %d, want %d", got, test.want)
			}
		})
	}
}
