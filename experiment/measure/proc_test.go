package measure

import (
	"os"
	"testing"
	"time"
)

func TestProc(t *testing.T) {
	t.Parallel()
	b, begin := open(t)
	for i := range 2 {
		s := b.Begin(t.Context(), "this", begin.Add(time.Duration(i)*10*time.Second))
		if err := s.Proc(os.Getpid()); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	at := begin.Add(10 * time.Second)
	if got := ask(t, b, Resident, at); got < 1<<20 {
		t.Errorf("%f bytes are resident", got)
	}
	for _, name := range []string{CPU, Received, Sent} {
		ask(t, b, name, at)
	}
	s := b.Begin(t.Context(), "nobody", at)
	if err := s.Proc(1 << 30); err == nil {
		t.Error("there is such a process")
	}
	if err := s.Commit(); err != nil {
		t.Error(err)
	}
}
