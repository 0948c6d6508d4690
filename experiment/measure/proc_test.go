package measure

import (
	"os"
	"testing"
	"time"
)

func TestReadProcfs(t *testing.T) {
	t.Parallel()
	s, begin := open(t)
	for i := range 2 {
		b := s.Batch(t.Context(), "this", begin.Add(time.Duration(i)*10*time.Second))
		if err := b.Proc(os.Getpid()); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	at := begin.Add(10 * time.Second)
	if got := query(t, s, Resident, at); got < 1<<20 {
		t.Errorf("resident memory: got %f bytes", got)
	}
	for _, name := range []string{CPU, Received, Sent} {
		query(t, s, name, at)
	}
	b := s.Batch(t.Context(), "missing", at)
	if err := b.Proc(1 << 30); err == nil {
		t.Error("a process that does not exist was measured")
	}
	if err := b.Commit(); err != nil {
		t.Error(err)
	}
}
