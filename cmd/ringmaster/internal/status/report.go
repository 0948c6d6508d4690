package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report is what there is to see. As JSON and YAML it is for programs: fields may be added, and keep
// their names and meaning.
type Report struct {
	// Time is when it was made, by this computer's clock.
	Time metav1.Time `json:"time"`
	// Namespace is the one whose objects were counted, or "" for all.
	Namespace string `json:"namespace,omitempty"`
	// Rings are there when rings were asked for, Objects when objects were.
	Rings   []Ring   `json:"rings,omitempty"`
	Objects []Object `json:"objects,omitempty"`
	// Leaders are there when rings were asked for: of operators in which one instance works on everything.
	Leaders []Leader `json:"leaders,omitempty"`
	// Warnings are about the whole report, such as what could not be read.
	Warnings []string `json:"warnings,omitempty"`
}

// Leader is who leads an operator, and works on everything while the others wait.
type Leader struct {
	// Name is the operator's: what its ring would be called.
	Name string `json:"name"`
	// Namespace and Lease are where the Lease of the election is, Holder who has it. Instance is the part of
	// that which people know, the name of the pod. Both are empty if nobody leads.
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	Instance  string `json:"instance,omitempty"`
	Holder    string `json:"holder,omitempty"`
	// Since is from when it leads, or from when nobody does. Renewed is when the Lease was written last, and
	// Expires when that runs out.
	Since   *metav1.Time `json:"since,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
	// Silent is whether nobody leads, or the Lease has run out, by this computer's clock.
	Silent bool `json:"silent,omitempty"`
	// Transitions is how often the lead went from one to another.
	Transitions int32 `json:"transitions,omitempty"`
	// Resources are what it works on, if that is known.
	Resources []string `json:"resources,omitempty"`
}

// Ring is a ring, with its shards and what they have.
type Ring struct {
	Name string `json:"name"`
	// Declared is whether there is a ControllerRing. Of a ring without one, the Leases tell what is known.
	Declared bool `json:"declared"`
	// Ready is whether new objects get a shard: the ControllerRing's condition, or what follows from the
	// Leases.
	Ready Condition `json:"ready"`
	// Conditions are the other ones of the ControllerRing.
	Conditions []Condition `json:"conditions,omitempty"`
	// Sharders are who assigns the objects. There should be one.
	Sharders []Sharder `json:"sharders,omitempty"`
	// Shards are all that have a Lease, and those that are only named by objects.
	Shards []Shard `json:"shards,omitempty"`
	// Members is how many of them are in the ring, and Available how many of those get objects.
	Members   int `json:"members"`
	Available int `json:"available"`
	// Kinds are what the ring spreads.
	Kinds []Kind `json:"kinds,omitempty"`
	// Total is the sum over all kinds that could be read.
	Total Counts `json:"total"`
	// Balance is how many main objects the fullest available shard has, divided by the mean of all
	// available shards. It is 0 if there are no objects or no shards.
	Balance float64 `json:"balance,omitempty"`
	// Warnings are what somebody should look at.
	Warnings []string `json:"warnings,omitempty"`
}

// Condition is what is well or not.
type Condition struct {
	Type    string                 `json:"type,omitempty"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	Since   *metav1.Time           `json:"since,omitempty"`
}

// The kinds of sharders.
const (
	// External is the sharder that is installed on the cluster, and works for ControllerRings.
	External = "external"
	// InProcess is one in an instance of the controller itself.
	InProcess = "in-process"
)

// Sharder is who assigns a ring's objects.
type Sharder struct {
	// Kind is external or in-process.
	Kind string `json:"kind"`
	// Holder is the process that holds the Lease of their election, if it is known, and Namespace is
	// where that Lease is.
	Holder    string       `json:"holder,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	// Silent is whether that Lease has run out, by this computer's clock.
	Silent bool `json:"silent,omitempty"`
	// Unseen is whether there is no such Lease where it should be: the sharder was at work, but maybe is no
	// more.
	Unseen bool `json:"unseen,omitempty"`
}

// What a shard's state can be besides those that the sharder shows on the Lease.
const (
	// StateLeft is of a shard that has given its Lease up, as one does that stops in good order.
	StateLeft = "left"
	// StateRefused is of a Lease that the ring does not take.
	StateRefused = "refused"
	// StateGone is of a shard that objects name and that has no Lease.
	StateGone = "gone"
	// StateUnknown is of a shard that objects name if the Leases cannot be read.
	StateUnknown = "unknown"
)

// Shard is a shard, and what it has.
type Shard struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// State is ready, expired, uncertain, dead or orphaned as the Lease shows it; or left, refused, gone or
	// unknown.
	State string `json:"state"`
	// Refused is why the ring does not take the Lease.
	Refused string `json:"refused,omitempty"`
	// Member is whether the shard is in the ring, and Leaving whether it is about to leave: it gets no more
	// objects.
	Member  bool `json:"member"`
	Leaving bool `json:"leaving,omitempty"`
	// Cordoned is whether it gets no new objects either, and is asked to release those that it has.
	Cordoned bool `json:"cordoned,omitempty"`
	// Created is when its Lease was made, Since from when it holds it or does not, Renewed when it was
	// written last, and Expires when that runs out.
	Created *metav1.Time `json:"created,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
	// Objects are what it has, by resource.
	Objects map[string]int `json:"objects,omitempty"`
	Total   int            `json:"total"`
	// Draining is how many of them it was asked to let go.
	Draining int `json:"draining,omitempty"`

	// holder of the Lease.
	holder string
}

// Kind is a resource that a ring spreads.
type Kind struct {
	// Resource is its name, such as deployments.apps.
	Resource string `json:"resource"`
	// Controlled is whether its objects follow those that control them.
	Controlled bool `json:"controlled,omitempty"`
	// Counts are missing when the objects could not be read, and Error is why.
	Counts *Counts `json:"counts,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Counts are numbers of objects.
type Counts struct {
	// Objects is how many are spread.
	Objects int `json:"objects"`
	// Unassigned have no shard's label.
	Unassigned int `json:"unassigned"`
	// Stranded have the label of a shard that is not in the ring.
	Stranded int `json:"stranded"`
	// Draining are those that a shard was asked to let go, the first of them at OldestDrain.
	Draining    int          `json:"draining"`
	OldestDrain *metav1.Time `json:"oldestDrain,omitempty"`
	// NotSpread are none of the ring's business: in a namespace that it does not select, or without a
	// controller that it spreads. They are not in Objects.
	NotSpread int `json:"notSpread"`
}
