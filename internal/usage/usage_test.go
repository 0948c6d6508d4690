//go:build linux

package usage_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/usage"
)

func TestOf(t *testing.T) {
	t.Parallel()
	before, err := usage.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, 64<<20)
	for begin := time.Now(); time.Since(begin) < 100*time.Millisecond; { // longer than a tick
		for i := 0; i < len(memory); i += 4096 {
			memory[i]++
		}
	}
	after, err := usage.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(memory)
	if grown := after.Resident - before.Resident; grown < 32<<20 {
		t.Errorf("64 MiB were allocated, and the resident memory grew by %.0f bytes", grown)
	}
	if after.CPU <= before.CPU || after.Peak < after.Resident || after.Anonymous > after.Resident || after.Received <= before.Received {
		t.Errorf("got %+v before and %+v after", before, after)
	}
	if _, err := usage.Of(1 << 30); err == nil {
		t.Error("a process that does not exist has a usage")
	}
}
