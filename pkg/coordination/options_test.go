package coordination_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// TestInvalidSettings checks that each error names the field, the problem and the next step.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	w := newFixture(t, unusedStore{})
	c := w.process("dc1")
	with := func(change func(*coordination.Settings)) coordination.Settings {
		settings := global("dc1")
		change(&settings)
		return settings
	}
	policy := func(policy coordination.Policy) coordination.Settings {
		return with(func(s *coordination.Settings) { s.Policy = policy })
	}
	for name, test := range map[string]struct {
		settings coordination.Settings
		want     string
	}{
		"mode":         {with(func(s *coordination.Settings) { s.Mode = "Global" }), `Settings.Mode "Global" is unknown: use local or global`},
		"no prefix":    {global(""), "Settings.Prefix is empty: set it"},
		"prefix":       {global("dc1/a"), `Settings.Prefix "dc1/a" contains a slash or a control character: choose another one`},
		"long prefix":  {global(strings.Repeat("x", 254)), `x" has 254 characters: choose one of at most 253`},
		"denied":       {with(func(s *coordination.Settings) { s.Denied = []string{""} }), "a name in Settings.Denied is empty: set it"},
		"expected":     {with(func(s *coordination.Settings) { s.Expected = []string{"a/b"} }), `prefix in Settings.Expected "a/b" contains a slash`},
		"time":         {policy(coordination.Policy{After: time.Minute}), "Settings.Policy.After is 1m0s, but Missing is not GoOn: set Missing to GoOn, or remove After"},
		"no time":      {policy(coordination.Policy{Missing: coordination.GoOn}), "Settings.Policy.Missing is GoOn, but After is 0s: set After to how long to wait"},
		"missing":      {policy(coordination.Policy{Missing: "wait"}), `Settings.Policy.Missing "wait" is unknown: use Wait, GoOn or LeaveOut`},
		"failing":      {policy(coordination.Policy{Failing: "goOn"}), `Settings.Policy.Failing "goOn" is unknown: use GiveUp or Continue`},
		"quiet window": {policy(coordination.Policy{Quiet: -time.Second}), "Settings.Policy.Quiet is -1s: set it to 0 or more"},
		"an action's": {with(func(s *coordination.Settings) {
			s.Policies = map[coordination.Action]coordination.Policy{coordination.Restart: {Quiet: -time.Second}}
		}), "Settings.Policies[Restart].Quiet is -1s: set it to 0 or more"},
		"an action": {with(func(s *coordination.Settings) {
			s.Policies = map[coordination.Action]coordination.Policy{"restart": {}}
		}), `Settings.Policies[restart]: action "restart" must be a capital letter`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			NewWithT(t).Expect(c.Configure(t.Context(), test.settings)).To(MatchError(And(
				HavePrefix(`configuring dc1-operator in store: `), ContainSubstring(test.want))))
		})
	}
}

// unusedStore is a store that must not be called.
type unusedStore struct{ kv.Store }

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*coordination.Options)
		want   string
	}{
		"store":     {func(o *coordination.Options) { o.Store = nil }, "Options.Store is empty: set it to one of etcdstore or kubestore"},
		"no system": {func(o *coordination.Options) { o.System = "" }, "the system's name is empty: set it"},
		"system":    {func(o *coordination.Options) { o.System = ".a" }, `the system's name ".a" begins with a dot, which is reserved for the store: choose another one`},
		"no name":   {func(o *coordination.Options) { o.Name = "" }, "Options.Name is empty: set it"},
		"name":      {func(o *coordination.Options) { o.Name = "a/b" }, `Options.Name "a/b" contains a slash or a control character: choose another one`},
		"session":   {func(o *coordination.Options) { o.SessionDuration = -time.Second }, "Options.SessionDuration is -1s: set it to more than 0, or leave it out for 15s"},
		"root":      {func(o *coordination.Options) { o.Root = "/a/" }, `Options.Root "/a/" ends with a slash: remove it`},
		"actions":   {func(o *coordination.Options) { o.Actions = []coordination.Action{"restart"} }, `Options.Actions: action "restart" must be a capital letter`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := coordination.Options{Store: unusedStore{}, System: system, Name: "dc1-operator"}
			test.change(&o)
			_, err := coordination.New(o)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}
