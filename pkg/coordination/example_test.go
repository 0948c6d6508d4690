package coordination_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	rollingRestart coordination.Action = "RollingRestart"
	replacement    coordination.Action = "Replacement"
)

// open returns a store for an example. An operator opens it with package etcdstore or kubestore.
func open() kv.Store { return coordination.NewMemoryStore() }

// database is what an operator in one data center knows of a database that others manage too.
type database struct {
	members  []coordination.MemberID // that belong to this operator
	outdated []coordination.MemberID
}

// Needs implements coordination.System.
func (d *database) Needs(context.Context, *coordination.View) (coordination.Needs, error) {
	needs := coordination.Needs{Members: d.members}
	for _, id := range d.outdated {
		needs.Pending = append(needs.Pending, coordination.Need{Action: rollingRestart, Member: id, Ready: true})
	}
	return needs, nil
}

// Plan restarts all members, also those of the other participants, one after the other.
func (d *database) Plan(_ context.Context, proposal coordination.Proposal) ([]coordination.Step, error) {
	var steps []coordination.Step
	for _, id := range proposal.IDs() {
		steps = append(steps, coordination.Step{Do: "restart", Members: []coordination.MemberID{id}, Order: true})
	}
	return steps, nil
}

// Execute implements coordination.System. The database refuses what comes with an older token than it has seen.
func (d *database) Execute(_ context.Context, task coordination.Task) error {
	fmt.Println(task.Step, "under the token", task.Token)
	d.outdated = slices.DeleteFunc(d.outdated, func(id coordination.MemberID) bool { return slices.Contains(task.Members, id) })
	return nil
}

// Healthy implements coordination.System.
func (d *database) Healthy(context.Context, coordination.Step) error { return nil }

// exampleOperator is a process that takes part.
type exampleOperator struct {
	*coordination.Coordinator
	settings coordination.Settings
	system   coordination.System
}

// operatorOf manages the members of one data center: dc1-1 and dc1-2 in dc1.
func operatorOf(store kv.Store, prefix string, outdated ...coordination.MemberID) *exampleOperator {
	c, err := coordination.New(coordination.Options{
		Store: store, System: "orders-db", Name: prefix + "-operator", Actions: []coordination.Action{replacement, rollingRestart},
	})
	if err != nil {
		panic(err)
	}
	d := &database{outdated: outdated}
	for n := range 2 {
		d.members = append(d.members, coordination.MemberID(fmt.Sprint(prefix, "-", n+1)))
	}
	return &exampleOperator{c, coordination.Settings{Mode: coordination.Global, Prefix: prefix}, d}
}

// reconcile calls Reconcile of all in turn, as often as given. An operator does it when Changed says so, and after Result.RequeueAfter.
func reconcile(times int, all ...*exampleOperator) (last *coordination.Result) {
	for range times {
		for _, o := range all {
			result, err := o.Reconcile(context.Background(), o.settings, o.system)
			if err != nil {
				fmt.Println(err)
			}
			last = result
		}
	}
	return last
}

const enough = 12

// Two operators restart what is outdated in both data centers. One of them acts for both, and each restarts its own members.
func ExampleCoordinator_Reconcile() {
	ctx, store := context.Background(), open()
	one := operatorOf(store, "dc1", "dc1-1", "dc1-2")
	two := operatorOf(store, "dc2", "dc2-1")
	for _, o := range []*exampleOperator{one, two} {
		o.settings.Expected = []string{"dc1", "dc2"} // nothing begins before both are there
	}
	changed := one.Changed(ctx)
	for range enough {
		result, err := one.Reconcile(ctx, one.settings, one.system)
		if err != nil {
			fmt.Println(err)
		}
		reconcile(1, two) // it does the same, in another process
		select {
		case <-changed:
		case <-time.After(result.RequeueAfter):
		}
	}
	// Output:
	// restart dc1-1 under the token 1
	// restart dc1-2 under the token 1
	// restart dc2-1 under the token 1
}

// A quiet window and what becomes of those that do not answer are policies. Each participant publishes its own, and the most
// careful one counts.
func ExamplePolicy() {
	store := open()
	one, two := operatorOf(store, "dc1"), operatorOf(store, "dc2")
	one.settings.Policy = coordination.Policy{Quiet: 30 * time.Second, Missing: coordination.LeaveOut, Failing: coordination.Continue}
	one.settings.Policies = map[coordination.Action]coordination.Policy{
		replacement: {Missing: coordination.GoOn, After: time.Hour}, // one of its own
	}
	two.settings.Policy = one.settings.Policy
	view := reconcile(2, one, two).View
	fmt.Println(view.PolicyConflict(rollingRestart))
	fmt.Println(view.PolicyConflict(replacement))
	// Output:
	//
	// dc1-operator and dc2-operator have different policies for Replacement; the more careful one applies: set both to the same
}

// In local mode, which is the default, a participant does the same for its own members alone. Nobody else does anything meanwhile.
func ExampleSettings_local() {
	one := operatorOf(open(), "dc1", "dc1-2")
	one.settings = coordination.Settings{}
	result := reconcile(enough, one)
	fmt.Println("others see that it takes part:", len(result.View.Participants) > 0)
	// Output:
	// restart dc1-2 under the token 1
	// others see that it takes part: false
}

// An operator whose object is deleted leaves: nothing of it stays in the store. It is called again after an error.
func ExampleCoordinator_Leave() {
	ctx, store := context.Background(), open()
	one, two := operatorOf(store, "dc1"), operatorOf(store, "dc2")
	reconcile(2, one, two)
	if err := one.Leave(ctx, one.system); err != nil {
		fmt.Println(err)
	}
	for _, participant := range reconcile(1, two).View.Participants {
		fmt.Println(participant.Name)
	}
	// Output: dc2-operator
}

// leaders is a database that has one leader. Where it is changes with every restart.
type leaders struct {
	*database
	leader coordination.MemberID
}

// Replan restarts the leader last.
func (l *leaders) Replan(_ context.Context, intent *coordination.Intent) ([]coordination.Step, error) {
	rest := slices.Clone(intent.Steps[intent.StepIndex:])
	slices.SortStableFunc(rest, func(a, b coordination.Step) int {
		leads := func(s coordination.Step) int {
			if s.Member() == l.leader {
				return 1
			}
			return 0
		}
		return leads(a) - leads(b)
	})
	return rest, nil
}

// A Replanner plans again after each step, because the system has changed.
func ExampleReplanner() {
	one := operatorOf(open(), "dc1", "dc1-1", "dc1-2", "dc1-3")
	d := one.system.(*database)
	d.members = append(d.members, "dc1-3")
	one.system = &leaders{d, "dc1-2"}
	reconcile(enough, one)
	// Output:
	// restart dc1-1 under the token 1
	// restart dc1-3 under the token 1
	// restart dc1-2 under the token 1
}

// fencedDatabase is a database that can be told to refuse older tokens.
type fencedDatabase struct{ *database }

// Fence tells the members, so that an operator that hangs does nothing any more.
func (f *fencedDatabase) Fence(_ context.Context, members []coordination.MemberID, token int64) error {
	fmt.Println(members, "refuse tokens below", token)
	return nil
}

// hangingDatabase is a database whose operator hangs while it restarts a member.
type hangingDatabase struct{ *database }

func (h *hangingDatabase) Execute(context.Context, coordination.Task) error {
	return coordination.NotYet("the process is restarting")
}

// With a Fencer, an action goes on without a participant that has accepted an order and hangs, if the policies leave it out.
func ExampleFencer() {
	ctx, store := context.Background(), open()
	one, two := operatorOf(store, "dc1", "dc1-1"), operatorOf(store, "dc2", "dc2-1")
	for _, o := range []*exampleOperator{one, two} {
		o.settings.Policy.Missing = coordination.LeaveOut
		o.settings.Denied = []string{"dc1-operator"} // the other one acts
	}
	one.system = &hangingDatabase{one.system.(*database)}
	two.system = &fencedDatabase{two.system.(*database)}
	reconcile(3, one, two)
	if err := one.Close(ctx); err != nil { // its session ends
		fmt.Println(err)
	}
	result := reconcile(enough, two)
	fmt.Println("left out:", result.View.DoneRecords[0].LeftOut["dc1-1"])
	// Output:
	// [dc1-1] refuse tokens below 2
	// restart dc2-1 under the token 2
	// left out: it was accepted, not answered in time, and fenced
}

// A reason is shown to people: ringmaster coordination status, and Result.WaitReasons.
func ExampleNotYet() {
	fmt.Println(coordination.NotYet("%s catches up: %d of %d entries", "dc1-2", 10, 300))
	// Output: dc1-2 catches up: 10 of 300 entries
}

// What cannot be done is recorded, and the members that are left do not follow.
func ExampleFailed() {
	one := operatorOf(open(), "dc1", "dc1-1", "dc1-2")
	one.system = &failingDatabase{one.system.(*database)}
	result := reconcile(enough, one)
	fmt.Println(result.View.DoneRecords[0].Failure)
	// Output: restart dc1-1 failed: the flag --quorum is unknown
}

type failingDatabase struct{ *database }

func (f *failingDatabase) Execute(context.Context, coordination.Task) error {
	return coordination.Failed("the flag --quorum is unknown")
}

// A system whose tokens are ahead, because the store was restored, says which one it has seen.
func ExampleFenced() {
	one := operatorOf(open(), "dc1", "dc1-1")
	one.system = &restoredDatabase{one.system.(*database)}
	reconcile(enough, one)
	// Output: restart dc1-1 under the token 42
}

type restoredDatabase struct{ *database }

func (r *restoredDatabase) Execute(ctx context.Context, task coordination.Task) error {
	const newestToken = 41
	if task.Token < newestToken {
		return coordination.Fenced(newestToken)
	}
	return r.database.Execute(ctx, task)
}
