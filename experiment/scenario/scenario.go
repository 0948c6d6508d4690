// Package scenario plans the load of an experiment, and the disturbances of the system meanwhile.
//
// It promises that a scenario and a seed always give the same list of operations, and that each operation is possible: a
// Website is changed or deleted only while it exists.
package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Load is the number of objects, and the rates of operations on them.
type Load struct {
	// Initial objects exist before the measurement begins.
	Initial int
	// Create and Delete are rates per second.
	Create, Delete float64
	// ChangeEvery is the interval at which each object is changed.
	ChangeEvery time.Duration
}

// Objects returns the number of objects after a time.
func (l Load) Objects(after time.Duration) float64 {
	return float64(l.Initial) + max(0, l.Create-l.Delete)*after.Seconds()
}

// Changes returns the rate per second of creations, changes and deletions, for a number of objects.
func (l Load) Changes(objects float64) float64 {
	changes := l.Create + l.Delete
	if l.ChangeEvery > 0 {
		changes += objects / l.ChangeEvery.Seconds()
	}
	return changes
}

// Disturbance is something that happens to the system besides its load.
type Disturbance string

const (
	// Roll replaces an instance by a new one, gracefully.
	Roll Disturbance = "roll"
	// Kill kills an instance with SIGKILL. Another one joins at once.
	Kill Disturbance = "kill"
	// Join adds an instance.
	Join Disturbance = "join"
	// Leave stops an instance for good.
	Leave Disturbance = "leave"
	// RestartAPI restarts the API server.
	RestartAPI Disturbance = "restart-api"
)

// Event is a disturbance at a time. Instance is the number of the affected instance; -1 is a random one.
type Event struct {
	At          time.Duration
	Disturbance Disturbance
	Instance    int
}

func (e Event) String() string {
	switch {
	case e.Disturbance == RestartAPI:
		return "the API server is restarted"
	case e.Instance < 0:
		return fmt.Sprintf("%s an instance", e.Disturbance)
	}
	return fmt.Sprintf("%s instance %d", e.Disturbance, e.Instance)
}

// Scenario is the load and the disturbances of one run.
type Scenario struct {
	Name string
	// About describes it in a sentence.
	About    string
	Duration time.Duration
	Load     Load
	// Instances is their initial number, Workers the number of workers of each; 0 is the operator's default.
	Instances, Workers int
	// Series are the numbers of instances to run with by default, one after the other.
	Series []int
	// Ramp scenarios increase the load until an objective no longer holds. Their result is the load until then.
	Ramp bool
	// Even scenarios have the same rate of changes for any number of objects.
	Even bool
	// Events are the disturbances, in order.
	Events []Event
}

// instances is the number of instances, unless a scenario sets another one.
const instances = 3

// All returns the scenarios with the parameters of the original evaluation.
func All() []Scenario {
	basic := Load{Create: 12, Delete: 2, ChangeEvery: time.Minute}
	const duration = 15 * time.Minute
	return []Scenario{
		{
			Name: "basic", Duration: duration, Load: basic, Instances: instances,
			About: "Websites are created, changed and deleted: about 9,000 at the end",
		},
		{
			Name: "scale-out", Duration: duration, Load: Load{Create: 10, ChangeEvery: 30 * time.Second}, Instances: 1, Workers: 5, Ramp: true, Series: []int{1, 2, 3, 4, 5},
			About: "more and more Websites, until an objective no longer holds: the capacity by number of instances",
		},
		{
			Name: "rolling-update", Duration: duration, Load: basic, Instances: instances, Events: rollingReplacement(instances, duration),
			About: "the load of basic, while every instance is replaced by a new one",
		},
		{
			Name: "chaos", Duration: duration, Load: Load{Initial: 4500, ChangeEvery: time.Minute}, Instances: instances,
			Events: every(Kill, 5*time.Minute, duration),
			About:  "4,500 Websites, and an instance is killed every 5 minutes",
		},
		{
			Name: "rebalance", Duration: 10 * time.Minute, Load: Load{Initial: 3000, ChangeEvery: time.Minute}, Instances: instances,
			Events: []Event{
				{2 * time.Minute, Join, instances},
				{4 * time.Minute, Join, instances + 1},
				{6 * time.Minute, Leave, 0},
				{8 * time.Minute, Leave, 1},
			},
			About: "3,000 Websites, while two instances join and two leave",
		},
		{
			Name: "reconnect", Duration: 10 * time.Minute, Load: basic, Instances: instances, Events: every(RestartAPI, 2*time.Minute+30*time.Second, 10*time.Minute),
			About: "the load of basic, while the API server restarts every 2.5 minutes",
		},
		{
			Name: "size", Duration: 10 * time.Minute, Load: Load{Initial: 1000, Create: 12, Delete: 12, ChangeEvery: 100 * time.Second}, Instances: instances, Even: true,
			About: "the same rate of changes with more Websites (--objects 1000,10000): what grows with their number",
		},
	}
}

// rollingReplacement returns events that replace one instance after the other in the second half.
func rollingReplacement(instances int, duration time.Duration) []Event {
	var all []Event
	for i := range instances {
		all = append(all, Event{duration/2 + time.Duration(i)*duration/time.Duration(4*instances), Roll, i})
	}
	return all
}

func every(disturbance Disturbance, period, duration time.Duration) []Event {
	var all []Event
	for at := period; at < duration; at += period {
		all = append(all, Event{at, disturbance, -1})
	}
	return all
}

// Find returns the scenario with a name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("scenario %q not found (available: %s)", name, strings.Join(names, ", "))
}

// Scaled multiplies the rates and the initial objects.
func (s Scenario) Scaled(factor float64) Scenario {
	s.Load.Initial = int(math.Round(float64(s.Load.Initial) * factor))
	s.Load.Create *= factor
	s.Load.Delete *= factor
	return s
}

// Holding sets the number of initial objects.
func (s Scenario) Holding(objects int) Scenario {
	if s.Even && s.Load.Initial > 0 {
		s.Load.ChangeEvery = time.Duration(float64(s.Load.ChangeEvery) * float64(objects) / float64(s.Load.Initial))
	}
	s.Load.Initial = objects
	return s
}

// Lasting sets the duration, and moves the events in proportion.
func (s Scenario) Lasting(duration time.Duration) Scenario {
	factor := float64(duration) / float64(s.Duration)
	s.Events = slices.Clone(s.Events)
	for i := range s.Events {
		s.Events[i].At = time.Duration(float64(s.Events[i].At) * factor)
	}
	s.Duration = duration
	return s
}

// With sets the initial number of instances.
func (s Scenario) With(instances int) Scenario {
	before := s.Instances
	s.Instances = instances
	if s.Name == "rolling-update" {
		s.Events = rollingReplacement(instances, s.Duration)
		return s
	}
	s.Events = slices.Clone(s.Events)
	for i, e := range s.Events {
		if e.Disturbance == Join {
			s.Events[i].Instance += instances - before
		}
	}
	return s
}

// Restarts reports whether the API server restarts.
func (s Scenario) Restarts() bool {
	return slices.ContainsFunc(s.Events, func(e Event) bool { return e.Disturbance == RestartAPI })
}

const (
	shortest     = 15 * time.Second
	shortestRamp = 3 * time.Minute
)

// Validate returns an error if the scenario cannot be run.
func (s Scenario) Validate() error {
	switch {
	case s.Duration < shortest:
		return fmt.Errorf("a duration of %s is too short: choose at least %s", s.Duration, shortest)
	case s.Ramp && s.Duration < shortestRamp:
		return fmt.Errorf("a duration of %s is too short for %s, which judges two minutes at a time: choose at least %s", s.Duration, s.Name, shortestRamp)
	case s.Instances < 1:
		return fmt.Errorf("cannot run %d instances: choose at least 1", s.Instances)
	case s.Load.Initial < 0:
		return fmt.Errorf("cannot start with %d objects: choose 0 or more", s.Load.Initial)
	case s.Load.Initial == 0 && s.Load.Create <= 0:
		return errors.New("the scenario has no objects at this scale: choose a larger --scale")
	}
	leaving := 0
	for _, e := range s.Events {
		if e.Disturbance == Leave {
			leaving++
		}
		if e.Instance >= cmp.Or(s.Instances, 1) && e.Disturbance != Join {
			return fmt.Errorf("%s: instance not found: run %s with at least %d instances", e, s.Name, e.Instance+1)
		}
	}
	if leaving >= s.Instances {
		return fmt.Errorf("%d of %d instances leave, so none remains: choose more --instances", leaving, s.Instances)
	}
	return nil
}
