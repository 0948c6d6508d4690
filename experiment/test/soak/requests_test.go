package soak_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
)

func event(id, phase, verb, pod string) string {
	return fmt.Sprintf(`{"kind":"Event","auditID":%q,"stage":%q,"verb":%q,"user":{"extra":{"authentication.kubernetes.io/pod-name":[%q]}}}`+"\n", id, phase, verb, pod)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	requests := soak.NewRequests(path)
	half := event("7", "ResponseComplete", "get", "a")
	for _, step := range []struct {
		text           string
		total, watches float64
	}{
		{event("1", "ResponseComplete", "get", "a") + event("2", "ResponseStarted", "watch", "a"), 2, 1},
		{event("3", "ResponseComplete", "update", "b") + event("4", "ResponseStarted", "watch", "a"), 3, 2},
		{`{"auditID":"5","stage":"ResponseComplete","verb":"get","user":{"username":"admin"}}` + "\n", 3, 2},
		{event("2", "ResponseComplete", "watch", "a"), 3, 1},
		{event("6", "ResponseComplete", "watch", "a"), 4, 1}, // refused
		{half[:20], 4, 1},
		{half[20:], 5, 1},
	} {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(step.text); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if err := requests.Update(); err != nil {
			t.Fatal(err)
		}
		if total, watches := requests.Of("a"); total != step.total || watches != step.watches {
			t.Errorf("after %q: %g requests and %g watches, want %g and %g", step.text, total, watches, step.total, step.watches)
		}
	}
	if total, _ := requests.Of("b"); total != 1 {
		t.Errorf("b has sent %g requests", total)
	}
}
