package app

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// changingStore has another intent in each version, which is the number of reads.
type changingStore struct {
	kv.Store
	reads     int64
	committed kv.Transaction
}

const intentKey = "/coordination/system/intent"

func (s *changingStore) Read(context.Context, ...string) (*kv.Snapshot, error) {
	s.reads++
	return &kv.Snapshot{Revision: s.reads, Entries: map[string]kv.Entry{intentKey: {Value: `{"action":"Restart"}`, Version: s.reads}}}, nil
}

func (s *changingStore) Commit(_ context.Context, transaction kv.Transaction) (int64, error) {
	s.committed = transaction
	return 0, kv.ErrConflict
}

// TestAbandonRequiresShownIntent has a store whose intent changes after it was shown.
func TestAbandonRequiresShownIntent(t *testing.T) {
	changing := &changingStore{}
	pinned := (&openedStore{Store: changing}).pinned()
	shown, err := coordination.ReadView(t.Context(), pinned, "/coordination", "system")
	if err != nil || shown.Intent == nil {
		t.Fatalf("%v: intent %v", err, shown)
	}
	if _, err := coordination.Abandon(t.Context(), pinned, "/coordination", "system", "test"); err == nil {
		t.Error("no conflict")
	}
	if !slices.Contains(changing.committed.If, kv.IsAt(intentKey, 1)) {
		t.Errorf("the conditions %v do not require the intent that was shown", changing.committed.If)
	}
}

// TestClusterFlagsSelectStoreInCluster sets the endpoints of an etcd in the environment: a command with a flag that selects a
// cluster or a user must not use that etcd.
func TestClusterFlagsSelectStoreInCluster(t *testing.T) {
	t.Setenv(coordinationstatus.EndpointsVariable, "http://127.0.0.1:2379")
	newStore := func() (*storeOptions, *cobra.Command) {
		s, command := &storeOptions{}, &cobra.Command{}
		s.addFlags(command)
		return s, command
	}
	s, command := newStore()
	if err := s.validate(command); err != nil || len(s.endpoints) != 1 {
		t.Errorf("without flags: %v, %v", s.endpoints, err)
	}
	forEtcd := []string{"endpoints", "cacert", "cert", "key", "root", "request-timeout"}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(forEtcd, flag.Name) {
			return
		}
		s, command := newStore()
		if err := command.ParseFlags([]string{"--" + flag.Name, "value"}); err != nil {
			t.Fatal(err)
		}
		if err := s.validate(command); err != nil || len(s.endpoints) > 0 {
			t.Errorf("--%s: uses the etcd of the environment, %v: %v", flag.Name, s.endpoints, err)
		}
		if flags := s.changedFlags(command); flags != " --"+flag.Name+" value" {
			t.Errorf("--%s is not among the flags of commands that are suggested: %q", flag.Name, flags)
		}
		s, command = newStore()
		if err := command.ParseFlags([]string{"--endpoints", "http://127.0.0.1:1", "--" + flag.Name, "value"}); err != nil {
			t.Fatal(err)
		}
		if err := s.validate(command); err == nil || !strings.Contains(err.Error(), "--"+flag.Name) {
			t.Errorf("--%s beside --endpoints: %v", flag.Name, err)
		}
	})
}
