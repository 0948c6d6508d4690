package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/config"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

// Question is whether a ServiceAccount may do something.
type Question struct {
	// Ring is the ring that needs it, or "" for what the sharder needs for all rings.
	Ring    string
	Sharder bool
	Account types.NamespacedName

	Verb, Group, Resource, Subresource, Namespace, Name string
}

// what is the resource as in an RBAC rule, with its group.
func (q Question) what() string {
	what := q.Resource
	if q.Subresource != "" {
		what += "/" + q.Subresource
	}
	if q.Group != "" {
		what += "." + q.Group
	}
	if q.Name != "" {
		what += " " + q.Name
	}
	return what
}

// questionsOf expands the rules of roles into questions about an account. Roles count in a namespace,
// ClusterRoles everywhere.
func questionsOf(objects []runtime.Object, template Question, namespace string) (questions []Question) {
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			questions = append(questions, expand(role.Rules, template)...)
		case *rbacv1.Role:
			template := template
			template.Namespace = namespace
			questions = append(questions, expand(role.Rules, template)...)
		}
	}
	return questions
}

func expand(rules []rbacv1.PolicyRule, template Question) (questions []Question) {
	for i := range rules {
		rule := &rules[i]
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						q := template
						q.Verb, q.Group, q.Name = verb, group, name
						q.Resource, q.Subresource, _ = strings.Cut(resource, "/")
						questions = append(questions, q)
					}
				}
			}
		}
	}
	return questions
}

// sharderRoles are the roles of the sharder that do not depend on rings, as config/ installs them.
func sharderRoles() ([]runtime.Object, error) {
	objects, err := manifest.Read(config.Manifests, "rbac/sharder.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded roles of the sharder: %w", err)
	}
	var all []runtime.Object
	for _, object := range objects {
		typed := runtime.Object(&rbacv1.Role{})
		if object.GetKind() == "ClusterRole" {
			typed = &rbacv1.ClusterRole{}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, fmt.Errorf("reading the embedded roles of the sharder: %w", err)
		}
		all = append(all, typed)
	}
	return all, nil
}

// embeddedCRD is the definition of ControllerRing that this program knows.
func embeddedCRD() (map[string]any, error) {
	objects, err := manifest.Read(config.Manifests, "crds/sharding.timebertt.dev_controllerrings.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the embedded CRD: %w", err)
	}
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == crdName })
	if at < 0 {
		return nil, fmt.Errorf("reading the embedded CRD: %s not found", crdName)
	}
	return objects[at].Object, nil
}

// questions returns what the sharder and the shards need, as far as their accounts are known.
func (f *Facts) questions() (questions []Question, err error) {
	if account := f.Sharder.Account; account != nil {
		own, err := sharderRoles()
		if err != nil {
			return nil, err
		}
		questions = questionsOf(own, Question{Sharder: true, Account: *account}, f.Sharder.Namespace)
	}
	for _, r := range f.rings() {
		if r.declared != nil && f.Sharder.Account != nil {
			template := Question{Ring: r.name, Sharder: true, Account: *f.Sharder.Account}
			questions = append(questions, questionsOf(roles.ForSharder(r.spec()), template, f.Sharder.Namespace)...)
		}
		for _, account := range f.ShardAccounts[r.name].Value {
			needed := roles.ForShards
			if r.inProcess() {
				needed = roles.ForInstances
			}
			questions = append(questions, questionsOf(needed(r.spec(), account), Question{Ring: r.name, Account: account}, account.Namespace)...)
		}
	}
	return questions, nil
}

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
				Next:  "name it with --shard-service-account NAMESPACE/NAME",
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

// denied are the permissions that one account lacks for one ring.
type denied struct {
	Question
	verbs map[string][]string // by resource
}

func groupDenied(access []Access) []*denied {
	type key struct {
		ring, account string
		sharder       bool
	}
	groups := map[key]*denied{}
	for _, answer := range access {
		if answer.Allowed {
			continue
		}
		k := key{answer.Ring, answer.Account.String(), answer.Sharder}
		if groups[k] == nil {
			groups[k] = &denied{Question: answer.Question, verbs: map[string][]string{}}
		}
		groups[k].verbs[answer.what()] = append(groups[k].verbs[answer.what()], answer.Verb)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *denied) int {
		return cmp.Or(cmp.Compare(a.Ring, b.Ring), cmp.Compare(a.Account.String(), b.Account.String()))
	})
}

func (d *denied) finding(rings []*ring) Finding {
	var lacks []string
	for _, what := range slices.Sorted(maps.Keys(d.verbs)) {
		lacks = append(lacks, strings.Join(d.verbs[what], ",")+" "+what)
	}
	found := Finding{Status: Failure, Ring: d.Ring, Object: "ServiceAccount/" + d.Account.String()}
	switch {
	case d.Sharder && d.Ring == "":
		found.Reason, found.Next = SharderLacksPermission, "kubectl apply -k config/rbac"
		found.Cause = "the sharder may not " + strings.Join(lacks, "; ")
	case d.Sharder:
		found.Reason, found.Next = SharderLacksPermission, fmt.Sprintf("ringmaster role %s | kubectl apply -f -", d.Ring)
		found.Cause = fmt.Sprintf("the sharder may not %s, so it does not move such objects of the ring %s", strings.Join(lacks, "; "), d.Ring)
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
	return found
}
