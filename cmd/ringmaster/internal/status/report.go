package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report is the state of rings, or of objects. Programs read it as JSON and YAML: fields may be added, and keep
// their names and meaning.
type Report struct {
	// Time is when the report was made, by the clock of this computer.
	Time metav1.Time `json:"time"`
	// Counted is whether all objects were listed and counted. Otherwise numbers of objects are those that the
	// shards publish on their Leases.
	Counted bool `json:"counted"`
	// Namespace is the only namespace whose objects were counted, or "" for all.
	Namespace string `json:"namespace,omitempty"`
	// Rings are set in a report on rings, Objects in a report on objects.
	Rings   []Ring   `json:"rings,omitempty"`
	Objects []Object `json:"objects,omitempty"`
	// Leaders are set in a report on rings: operators in which one instance reconciles all objects.
	Leaders []Leader `json:"leaders,omitempty"`
	// Warnings are about the whole report, such as missing permissions of the user.
	Warnings []string `json:"warnings,omitempty"`
	// Unreadable is what could not be read: without it, a ring without problems may still have some.
	Unreadable []string `json:"unreadable,omitempty"`
}

// Leader is the state of an operator in which one instance reconciles all objects while the others wait.
type Leader struct {
	// Name is the name of the operator: that of its ring if it were sharded.
	Name string `json:"name"`
	// Namespace and Lease name the Lease of the election. Holder is its holder, and Instance the part of that
	// which names the pod. Both are empty if no instance leads.
	Namespace string `json:"namespace"`
	Lease     string `json:"lease"`
	Instance  string `json:"instance,omitempty"`
	Holder    string `json:"holder,omitempty"`
	// Since is when the instance began to lead, or when the last one stopped. Renewed is when the Lease was last
	// renewed, and Expires when it expires.
	Since   *metav1.Time `json:"since,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
	// Silent is whether no instance leads, or the Lease has expired by the clock of this computer.
	Silent bool `json:"silent,omitempty"`
	// Transitions is how often the leader has changed.
	Transitions int32 `json:"transitions,omitempty"`
	// Resources are the resources that the leader reconciles, if they are known.
	Resources []string `json:"resources,omitempty"`
}

// Ring is the state of a ring.
type Ring struct {
	Name string `json:"name"`
	// Declared is whether a ControllerRing exists. The state of a ring without one is derived from its Leases.
	Declared bool `json:"declared"`
	// Ready is whether new objects are assigned: the condition of the ControllerRing, or derived from the Leases.
	Ready Condition `json:"ready"`
	// Conditions are the other conditions of the ControllerRing.
	Conditions []Condition `json:"conditions,omitempty"`
	// Sharders assign the objects of the ring. There should be one.
	Sharders []Sharder `json:"sharders,omitempty"`
	// Shards are those with a Lease and, in a report that has counted, those that only labels of objects name.
	Shards []Shard `json:"shards,omitempty"`
	// Members is the number of shards that are members, and Available the number of those that are assigned objects.
	Members   int `json:"members"`
	Available int `json:"available"`
	// Kinds are the resources that are sharded.
	Kinds []Kind `json:"kinds,omitempty"`
	// Objects is the number of objects, or unset if it is not known: a member does not publish how many it owns, or
	// there is none.
	Objects *int `json:"objects,omitempty"`
	// Total is the sum over all kinds that could be read. It is set if the objects were counted.
	Total *Counts `json:"total,omitempty"`
	// Imbalance is the highest number of main objects of an available shard, divided by the mean of all available
	// shards. It is unset if it is not known, or without objects or shards.
	Imbalance float64 `json:"imbalance,omitempty"`
	// Problems are the reasons why --exit-code fails.
	Problems []Problem `json:"problems,omitempty"`
	// Warnings are findings that a person should check.
	Warnings []string `json:"warnings,omitempty"`
}

// Condition is a condition of a ring.
type Condition struct {
	Type    string                 `json:"type,omitempty"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	Since   *metav1.Time           `json:"since,omitempty"`
}

// The kinds of sharders.
const (
	// External is the sharder that is installed on the cluster and assigns the objects of ControllerRings.
	External = "external"
	// InProcess is a sharder in an instance of the controller.
	InProcess = "in-process"
)

// Sharder is the state of a sharder of a ring.
type Sharder struct {
	// Kind is external or in-process.
	Kind string `json:"kind"`
	// Holder is the process that holds the Lease of the sharders' election, if it is known, and Namespace the
	// namespace of that Lease.
	Holder    string       `json:"holder,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	// Silent is whether that Lease has expired, by the clock of this computer.
	Silent bool `json:"silent,omitempty"`
	// Unseen is whether that Lease does not exist in the namespace of the sharder: the sharder was active, but it is
	// not known whether it still is.
	Unseen bool `json:"unseen,omitempty"`
}

// The states of a shard in addition to those that the sharder writes to its Lease.
const (
	// StateLeft is the state of a shard that has released its Lease, as on a graceful stop.
	StateLeft = "left"
	// StateRefused is the state of a Lease that the ring does not accept.
	StateRefused = "refused"
	// StateGone is the state of a shard that labels of objects name and that has no Lease.
	StateGone = "gone"
	// StateUnknown is the state of a shard that labels of objects name if the Leases cannot be read.
	StateUnknown = "unknown"
)

// Shard is the state of a shard.
type Shard struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// State is ready, expired, uncertain, dead or orphaned, as on the Lease, or left, refused, gone or unknown.
	State string `json:"state"`
	// Refused is why the ring does not accept the Lease.
	Refused string `json:"refused,omitempty"`
	// Member is whether the shard is a member of the ring. Leaving is whether it hands its objects over and is not
	// assigned any.
	Member  bool `json:"member"`
	Leaving bool `json:"leaving,omitempty"`
	// Cordoned is whether the shard is asked to release its objects and is not assigned any.
	Cordoned bool `json:"cordoned,omitempty"`
	// Created is when the Lease was created, Since when the shard acquired or lost it, Renewed when it was last
	// renewed, and Expires when it expires.
	Created *metav1.Time `json:"created,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	Expires *metav1.Time `json:"expires,omitempty"`
	// Objects are the numbers of objects that the shard owns, by resource, and Total is their sum. Both are unset if
	// they are not known: the objects were not counted, and the shard does not publish the numbers, or is not a member.
	Objects map[string]int `json:"objects,omitempty"`
	Total   *int           `json:"total,omitempty"`
	// Draining is the number of objects that the shard is asked to release, if the objects were counted.
	Draining int `json:"draining,omitempty"`

	// holder is the holder of the Lease.
	holder string
	// published are the numbers of objects on the Lease, or nil.
	published map[string]int
}

// Kind is a resource that is sharded.
type Kind struct {
	// Resource is its name, such as deployments.apps.
	Resource string `json:"resource"`
	// Controlled is whether its objects are assigned to the shard that owns their controllers.
	Controlled bool `json:"controlled,omitempty"`
	// Counts are set if the objects were counted. Error is why they could not be.
	Counts *Counts `json:"counts,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Counts are numbers of objects.
type Counts struct {
	// Objects is the number of objects that are sharded.
	Objects int `json:"objects"`
	// Unassigned is the number of objects without a shard label.
	Unassigned int `json:"unassigned"`
	// Orphaned is the number of objects with the label of a shard that is not a member of the ring.
	Orphaned int `json:"orphaned"`
	// Draining is the number of objects that a shard is asked to release, and OldestDrain when the first of these
	// drains began.
	Draining    int          `json:"draining"`
	OldestDrain *metav1.Time `json:"oldestDrain,omitempty"`
	// NotSharded is the number of objects that the ring ignores: in a namespace that it does not select, or without
	// a controller that is sharded. They are not part of Objects.
	NotSharded int `json:"notSharded"`
}
