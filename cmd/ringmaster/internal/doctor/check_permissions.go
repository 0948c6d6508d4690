package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/roles"
)

// evaluatePermissions reports missing permissions of the ServiceAccounts of the sharder and the shards.
func evaluatePermissions(f *Facts, rings []*ring) *Check {
	c := &Check{Name: checkPermissions}
	c.requireRings(f)
	switch external := slices.ContainsFunc(rings, func(r *ring) bool { return r.declared != nil }); {
	case !external || f.Sharder.Account != nil:
	case !f.Sharder.Pods.known():
		c.unreadable("pods in the namespace "+f.Sharder.Namespace, f.Sharder.Pods.Err)
	case f.Sharder.Election.Value != nil: // otherwise it was never installed
		c.add(Finding{
			Reason: SharderAccountUnknown, Status: Unknown, Object: "Lease/" + f.Sharder.Namespace + "/" + electionName,
			Cause: "the ServiceAccount of the sharder is unknown: neither the holder of its lease nor a pod with the label " + sharderSelector +
				" could be found in the namespace " + f.Sharder.Namespace,
			Next: "name it with --sharder-service-account NAMESPACE/NAME",
		})
	}
	for _, r := range rings {
		accounts := f.ShardAccounts[r.name]
		if !accounts.known() {
			c.unreadable("pods of the shards of "+r.name, accounts.Err)
		} else if len(accounts.Value) == 0 && r.exists() && len(r.available()) > 0 {
			c.add(Finding{
				Reason: ShardAccountUnknown, Status: Unknown, Ring: r.name, Object: r.object(),
				Cause: "the ServiceAccount of the shards is unknown: no pod has the name of a Lease",
				Next: "name it with --shard-service-account NAMESPACE/NAME, or ignore this if the shards run outside the cluster " +
					"without a ServiceAccount",
			})
		}
	}
	if !f.Access.known() {
		c.unreadable("permissions of ServiceAccounts (subjectaccessreviews)", f.Access.Err)
		return c
	}
	for _, lacking := range groupDenied(f.Access.Value) {
		c.add(lacking.finding(rings))
	}
	return c.message("all %d permissions of the sharder and the shards are granted", len(f.Access.Value))
}

// missingPermissions are the permissions that one account lacks for one ring.
type missingPermissions struct {
	Question
	verbs map[string][]string // by resource
}

func groupDenied(access []Access) []*missingPermissions {
	type key struct {
		ring, account     string
		sharder, optional bool
	}
	groups := map[key]*missingPermissions{}
	for _, answer := range access {
		if answer.Allowed {
			continue
		}
		k := key{answer.Ring, answer.Account.String(), answer.Sharder, answer.Optional}
		if groups[k] == nil {
			groups[k] = &missingPermissions{Question: answer.Question, verbs: map[string][]string{}}
		}
		groups[k].verbs[answer.qualifiedResource()] = append(groups[k].verbs[answer.qualifiedResource()], answer.Verb)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *missingPermissions) int {
		return cmp.Or(cmp.Compare(a.Ring, b.Ring), cmp.Compare(a.Account.String(), b.Account.String()), cmp.Compare(a.qualifiedResource(), b.qualifiedResource()))
	})
}

func (d *missingPermissions) finding(rings []*ring) Finding {
	var lacks []string
	for _, resource := range slices.Sorted(maps.Keys(d.verbs)) {
		lacks = append(lacks, strings.Join(d.verbs[resource], ",")+" "+resource)
	}
	found := Finding{Status: Failure, Ring: d.Ring, Object: "ServiceAccount/" + d.Account.String()}
	switch {
	case d.Sharder && d.Ring == "":
		found.Reason, found.Next = SharderLacksPermission, "kubectl apply -k config/rbac"
		found.Cause = "the sharder may not " + strings.Join(lacks, "; ")
	case d.Sharder:
		found.Reason, found.Next = SharderLacksPermission, fmt.Sprintf("ringmaster role %s | kubectl apply -f -", d.Ring)
		found.Cause = fmt.Sprintf("the sharder may not %s, which it needs for the ring %s", strings.Join(lacks, "; "), d.Ring)
		if d.Account != roles.Sharder {
			found.Next += fmt.Sprintf(", with %s as the subject of the binding", d.Account)
		}
	default:
		found.Reason, found.Next = ShardLacksPermission, fmt.Sprintf("ringmaster role %s --shard %s | kubectl apply -f -", d.Ring, d.Account)
		if slices.ContainsFunc(rings, func(r *ring) bool { return r.name == d.Ring && r.inProcess() }) {
			found.Next = fmt.Sprintf("ringmaster role -f ring.yaml --shard %s --in-process | kubectl apply -f -", d.Account)
		}
		found.Cause = fmt.Sprintf("the shards of %s may not %s", d.Ring, strings.Join(lacks, "; "))
	}
	if d.Optional {
		found.Status = Warning
	}
	return found
}
