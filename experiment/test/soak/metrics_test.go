package soak_test

import (
	"testing"

	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
)

func TestReadMetrics(t *testing.T) {
	t.Parallel()
	const text = "# HELP go_goroutines Number of goroutines.\ngo_goroutines 42\ngo_memstats_heap_inuse_bytes 1.5e+07\n"
	heap, goroutines, files, err := soak.ReadMetrics(text + "process_open_fds 9\n")
	if heap != 1.5e7 || goroutines != 42 || files != 9 || err != nil {
		t.Errorf("got %g, %g, %g, %v", heap, goroutines, files, err)
	}
	if _, _, _, err := soak.ReadMetrics(text); err == nil {
		t.Error("no error although a metric is missing")
	}
}
