package coordination

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCondition(t *testing.T) {
	t.Parallel()
	both := &View{Instances: []Instance{{Prefix: "dc1"}, {Prefix: "dc2"}}}
	dead := &View{Instances: both.Instances[:1], Participants: []Participant{{Prefix: "dc1"}, {Prefix: "dc2"}}}
	waits := []WaitReason{{"dc2-1", "it is not ready"}}
	doing := &Intent{Action: "Restart", Holder: "dc1-operator", Steps: []Step{{Do: "restart", Members: []MemberID{"dc2-1"}}}}
	for name, test := range map[string]struct {
		mode   Mode
		result Result
		err    error
		status metav1.ConditionStatus
		reason string
	}{
		"no need":                  {Global, Result{View: both}, nil, metav1.ConditionTrue, ReasonSettled},
		"a wait reason":            {Global, Result{View: both, WaitReasons: waits}, nil, metav1.ConditionTrue, ReasonWaiting},
		"an action":                {Global, Result{View: both, WaitReasons: waits, Intent: doing}, nil, metav1.ConditionTrue, ReasonActing},
		"one has not joined":       {Global, Result{View: &View{Instances: both.Instances[:1]}}, nil, metav1.ConditionFalse, ReasonMixedModes},
		"one is dead":              {Global, Result{View: dead}, nil, metav1.ConditionFalse, ReasonNotAlive},
		"local mode":               {Local, Result{View: &View{}, WaitReasons: waits}, nil, metav1.ConditionTrue, ReasonLocal},
		"on a deny list":           {Global, Result{View: &View{Denied: map[string][]string{"dc1-operator": {"dc2"}}}}, nil, metav1.ConditionFalse, ReasonDenied},
		"an older process":         {Global, Result{View: both, Superseded: true}, nil, metav1.ConditionFalse, ReasonSuperseded},
		"a taken prefix":           {Global, Result{View: both}, fmt.Errorf("registering: %w", ErrPrefixTaken), metav1.ConditionFalse, ReasonPrefixTaken},
		"an error before any view": {Global, Result{View: &View{}}, errors.New("no store"), metav1.ConditionFalse, ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Coordinator{name: "dc1-operator", settings: Settings{Mode: test.mode}}
			got := c.Condition(&test.result, test.err, "dc1", "dc2")
			if got.Type != ConditionCoordinated || got.Status != test.status || got.Reason != test.reason || got.Message == "" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWaitSummary(t *testing.T) {
	t.Parallel()
	for want, waits := range map[string][]WaitReason{
		"":                                     nil,
		"Restart: another 5s without a change": {{"Restart", "another 4.7s without a change"}},
		"1m1s more":                            {{"", "1m0.25s more"}, {"", "1m0.25s more"}},
		"dc1-1: 1s behind; dc2-1 is in step":   {{"dc1-1", "3ms behind"}, {"", "dc2-1 is in step"}},
	} {
		result := Result{WaitReasons: waits}
		if got := result.WaitSummary(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestEventWarning(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{"Began": false, "Done": false, "Executed": false, "GaveUp": true, "LockLost": true} {
		if got := (Event{Reason: reason}).IsWarning(); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}

func TestNeedsView(t *testing.T) {
	t.Parallel()
	view := Needs{Pending: []Need{
		{Action: "Restart", Member: "dc1-1"}, {Action: "Restart", Member: "dc1-2", Ready: true, Addresses: []string{"a:1"}},
	}}.View("dc1")
	first, second := Member{Prefix: "dc1"}, Member{Prefix: "dc1", Addresses: []string{"a:1"}}
	want := map[Set]Members{"pendingForRestart": {"dc1-1": first, "dc1-2": second}, "readyForRestart": {"dc1-2": second}}
	if diff := cmp.Diff(want, view.Sets); diff != "" {
		t.Error(diff)
	}
	candidates := view.Candidates([]MemberID{"dc1-1", "dc1-2", "dc2-1"})
	if diff := cmp.Diff([]MemberID{"dc2-1"}, candidates); diff != "" {
		t.Error(diff)
	}
}

func ExampleResult_WaitSummary() {
	result := Result{WaitReasons: []WaitReason{{For: "dc2-1", Reason: "it is not ready"}, {For: "Restart", Reason: "another 4.7s without a change"}}}
	fmt.Println(result.WaitSummary())
	// Output: dc2-1: it is not ready; Restart: another 5s without a change
}
