package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Load says how many objects there are and what becomes of them.
type Load struct {
	// Initial are there before the time begins to count.
	Initial int
	// Create and Delete are so many each second.
	Create, Delete float64
	// ChangeEvery is how often each object is changed.
	ChangeEvery time.Duration
}

// Objects are how many there are after a time.
func (l Load) Objects(after time.Duration) float64 {
	return float64(l.Initial) + max(0, l.Create-l.Delete)*after.Seconds()
}

// Changes are how many objects are created, changed or deleted each second, with so many of them.
func (l Load) Changes(objects float64) float64 {
	changes := l.Create + l.Delete
	if l.ChangeEvery > 0 {
		changes += objects / l.ChangeEvery.Seconds()
	}
	return changes
}

// Disturbance is what happens to the system besides its load.
type Disturbance string

const (
	// Roll replaces an instance by a new one, in good order.
	Roll Disturbance = "roll"
	// Kill kills an instance, which is started again at once.
	Kill Disturbance = "kill"
	// Join adds an instance.
	Join Disturbance = "join"
	// Leave stops an instance for good.
	Leave Disturbance = "leave"
	// RestartAPI restarts the API server.
	RestartAPI Disturbance = "restart-api"
)

// Event is a disturbance at a time. Instance is the number of the one that it happens to; -1 is one by chance.
type Event struct {
	At       time.Duration
	What     Disturbance
	Instance int
}

func (e Event) String() string {
	switch {
	case e.What == RestartAPI:
		return "the API server is restarted"
	case e.Instance < 0:
		return fmt.Sprintf("%s an instance", e.What)
	}
	return fmt.Sprintf("%s instance %d", e.What, e.Instance)
}

// Scenario is what is done in one run.
type Scenario struct {
	Name string
	// About says in a sentence what it shows.
	About    string
	Duration time.Duration
	Load     Load
	// Instances are how many there are at first, each with so many Workers. 0 workers are the operator's own choice.
	Instances, Workers int
	// Series are the numbers of instances that it is run with, one after the other, if it is to show what one more is worth.
	Series []int
	// Ramp means that it ends as soon as an objective does not hold any more: what is looked for is the load until then.
	Ramp bool
	// Even means that there are as many changes each second, however many objects there are.
	Even bool
	// Events are the disturbances, in their order.
	Events []Event
}

// instances are those of all scenarios that do not say otherwise.
const instances = 3

// All are the scenarios with their original parameters.
func All() []Scenario {
	basic := Load{Create: 12, Delete: 2, ChangeEvery: time.Minute}
	const duration = 15 * time.Minute
	return []Scenario{
		{
			Name: "basic", Duration: duration, Load: basic, Instances: instances,
			About: "objects come, change and go, about 9,000 of them in the end",
		},
		{
			Name: "scale-out", Duration: duration, Load: Load{Create: 10, ChangeEvery: 30 * time.Second}, Instances: 1, Workers: 5, Ramp: true, Series: []int{1, 2, 3, 4, 5},
			About: "more and more objects, until an objective does not hold any more: how much one more instance is worth",
		},
		{
			Name: "rolling-update", Duration: duration, Load: basic, Instances: instances, Events: rolling(instances, duration),
			About: "the load of basic, while every instance is replaced by a new one",
		},
		{
			Name: "chaos", Duration: duration, Load: Load{Initial: 4500, ChangeEvery: time.Minute}, Instances: instances,
			Events: every(Kill, 5*time.Minute, duration),
			About:  "4,500 objects, and an instance is killed every 5 minutes",
		},
		{
			Name: "rebalance", Duration: 10 * time.Minute, Load: Load{Initial: 3000, ChangeEvery: time.Minute}, Instances: instances,
			Events: []Event{
				{2 * time.Minute, Join, instances},
				{4 * time.Minute, Join, instances + 1},
				{6 * time.Minute, Leave, 0},
				{8 * time.Minute, Leave, 1},
			},
			About: "3,000 objects, while two instances join and two leave",
		},
		{
			Name: "reconnect", Duration: 10 * time.Minute, Load: basic, Instances: instances, Events: every(RestartAPI, 2*time.Minute+30*time.Second, 10*time.Minute),
			About: "the load of basic, while the API server is restarted again and again",
		},
		{
			Name: "size", Duration: 10 * time.Minute, Load: Load{Initial: 1000, Create: 12, Delete: 12, ChangeEvery: 100 * time.Second}, Instances: instances, Even: true,
			About: "the same changes with more and more objects (--objects 1000,10000): what needs more of what",
		},
	}
}

// rolling replaces one instance after the other in the second half.
func rolling(instances int, duration time.Duration) []Event {
	var all []Event
	for i := range instances {
		all = append(all, Event{duration/2 + time.Duration(i)*duration/time.Duration(4*instances), Roll, i})
	}
	return all
}

func every(what Disturbance, period, duration time.Duration) []Event {
	var all []Event
	for at := period; at < duration; at += period {
		all = append(all, Event{at, what, -1})
	}
	return all
}

// Find returns the scenario of a name.
func Find(name string) (Scenario, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q; there are: %v", name, names)
}

// Scaled makes the load smaller or larger, and leaves its shape as it is.
func (s Scenario) Scaled(factor float64) Scenario {
	s.Load.Initial = int(math.Round(float64(s.Load.Initial) * factor))
	s.Load.Create *= factor
	s.Load.Delete *= factor
	return s
}

// Holding gives it another number of objects to begin with.
func (s Scenario) Holding(objects int) Scenario {
	if s.Even && s.Load.Initial > 0 {
		s.Load.ChangeEvery = time.Duration(float64(s.Load.ChangeEvery) * float64(objects) / float64(s.Load.Initial))
	}
	s.Load.Initial = objects
	return s
}

// Lasting makes it shorter or longer. What happens at a time happens at the same part of it.
func (s Scenario) Lasting(duration time.Duration) Scenario {
	factor := float64(duration) / float64(s.Duration)
	s.Events = slices.Clone(s.Events)
	for i := range s.Events {
		s.Events[i].At = time.Duration(float64(s.Events[i].At) * factor)
	}
	s.Duration = duration
	return s
}

// With gives it another number of instances, as far as they are there at first.
func (s Scenario) With(instances int) Scenario {
	before := s.Instances
	s.Instances = instances
	if s.Name == "rolling-update" {
		s.Events = rolling(instances, s.Duration)
		return s
	}
	s.Events = slices.Clone(s.Events)
	for i, e := range s.Events {
		if e.What == Join {
			s.Events[i].Instance += instances - before
		}
	}
	return s
}

// Restarts tells whether the API server is away now and then.
func (s Scenario) Restarts() bool {
	return slices.ContainsFunc(s.Events, func(e Event) bool { return e.What == RestartAPI })
}

const (
	shortest     = 15 * time.Second
	shortestRamp = 3 * time.Minute
)

// Validate tells what cannot be done.
func (s Scenario) Validate() error {
	switch {
	case s.Duration < shortest:
		return fmt.Errorf("%s is too short to see anything: make it last %s at least", s.Duration, shortest)
	case s.Ramp && s.Duration < shortestRamp:
		return fmt.Errorf("%s is too short for %s, which looks at two minutes at a time: make it last %s at least", s.Duration, s.Name, shortestRamp)
	case s.Instances < 1:
		return fmt.Errorf("%d instances cannot do anything: choose 1 at least", s.Instances)
	case s.Load.Initial < 0:
		return fmt.Errorf("there cannot be %d objects", s.Load.Initial)
	case s.Load.Initial == 0 && s.Load.Create <= 0:
		return errors.New("there would be no objects: choose a larger scale")
	}
	leaving := 0
	for _, e := range s.Events {
		if e.What == Leave {
			leaving++
		}
		if e.Instance >= cmp.Or(s.Instances, 1) && e.What != Join {
			return fmt.Errorf("%s: there is no such instance; %s needs %d at least", e, s.Name, e.Instance+1)
		}
	}
	if leaving >= s.Instances {
		return fmt.Errorf("%d of %d instances leave: choose more", leaving, s.Instances)
	}
	return nil
}
