package v1alpha1

import (
	"strings"
	"time"
)

// DefaultQuietWindow is what the schema sets. An object can be older than the schema.
const DefaultQuietWindow = 5 * time.Second

// SystemName is the name of the etcd cluster that this is a part of.
func (c *EtcdCluster) SystemName() string {
	if c.Spec.System != "" {
		return c.Spec.System
	}
	return c.Name
}

// Mode is the one that is wanted.
func (o *AutomationOptions) Mode() SynchronizationMode {
	if o.SynchronizationMode == "" {
		return SynchronizationLocal
	}
	return o.SynchronizationMode
}

// Quiet is how long nothing new may have become pending.
func (o *AutomationOptions) Quiet() time.Duration {
	if o.QuietWindow == nil {
		return DefaultQuietWindow
	}
	return o.QuietWindow.Duration
}

// After is how long to wait for members that are not ready. It is 0 where that is for ever.
func (o *AutomationOptions) After() time.Duration {
	if o.GoOnAfter == nil {
		return 0
	}
	return o.GoOnAfter.Duration
}

// Owns tells whether a member's ID is one of a region with this prefix: <prefix>-<something without a hyphen>. A
// prefix may begin as another one does, so that the beginning alone tells nothing.
func (p Prefix) Owns(id MemberID) bool {
	rest, found := strings.CutPrefix(string(id), string(p)+"-")
	return found && rest != "" && !strings.Contains(rest, "-")
}
