// Package policies returns the ValidatingAdmissionPolicies of a ring: the API server then refuses what only good
// manners prevent otherwise.
//
// It promises that the policies of a ring refuse nothing but requests for the Leases of the ring, for its election
// Lease, for the shard and drain labels of its objects, and requests of its shards' ServiceAccounts for its objects.
package policies

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Rule names a policy of a ring.
type Rule string

// The rules of a ring.
const (
	// Membership: a Lease with the ring's label is written only by its shard, the sharder and administrators.
	Membership Rule = "membership"
	// Sharder: a Lease that announces an in-process sharder of the ring is written only by its holder.
	Sharder Rule = "sharder"
	// Labels: the shard and drain labels of an existing object are changed only by its owner and the sharder.
	Labels Rule = "labels"
	// Fence: a shard writes only objects that it owns.
	Fence Rule = "fence"
	// Scale: no shard writes the scale of objects, which does not show their owner.
	Scale Rule = "scale"
	// Election: the election Lease of in-process sharders is written only by the shards.
	Election Rule = "election"
)

// Name returns the name of a ring's policy, and of its binding.
func Name(ring string, rule Rule) string {
	return shardingv1alpha1.PolicyPrefix + ring + "-" + string(rule)
}

// Options are options of the policies of a ring.
type Options struct {
	// Sharder is the ServiceAccount of the external sharder.
	Sharder types.NamespacedName
	// Election is the election Lease of in-process sharders. It is empty for a ring with an external sharder.
	Election types.NamespacedName
	// Audit makes the API server warn and write audit annotations instead of refusing requests.
	Audit bool
	// AllowScale leaves out the rule Scale.
	AllowScale bool
}

func (o Options) inProcess() bool { return o.Election.Name != "" }

// errNoAccounts is returned for a ring whose shards cannot be told from strangers.
var errNoAccounts = errors.New("does not name the ServiceAccounts of its shards: set spec.shards.serviceAccounts")

// ForRing returns the policies of a ring, each followed by its binding.
func ForRing(ring *shardingv1alpha1.ControllerRing, options Options) ([]runtime.Object, error) {
	if ring.Spec.Shards == nil || len(ring.Spec.Shards.ServiceAccounts) == 0 {
		return nil, fmt.Errorf("ControllerRing %q %w", ring.Name, errNoAccounts)
	}
	if len(ring.Spec.Resources) == 0 {
		return nil, fmt.Errorf("ControllerRing %q lists no resources, so it needs no policies: add spec.resources", ring.Name)
	}
	var objects []runtime.Object
	for _, policy := range all(ring, options) {
		objects = append(objects, policy, binding(policy, options))
	}
	return objects, nil
}

// all returns the policies of a ring.
func all(ring *shardingv1alpha1.ControllerRing, options Options) []*admissionregistrationv1.ValidatingAdmissionPolicy {
	e := expressionsOf(ring, options)
	found := []*admissionregistrationv1.ValidatingAdmissionPolicy{
		membership(ring, e), sharder(ring, e), labels(ring, options, e), fence(ring, e),
	}
	if !options.AllowScale {
		found = append(found, scale(ring, e))
	}
	if options.inProcess() {
		found = append(found, election(ring, options, e))
	}
	return found
}

// policy returns a policy with every default of the API server set, so that it can be compared with what the API
// server returns.
func policy(ring *shardingv1alpha1.ControllerRing, rule Rule, match admissionregistrationv1.MatchResources) *admissionregistrationv1.ValidatingAdmissionPolicy {
	match.MatchPolicy = new(admissionregistrationv1.Equivalent)
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(ring.Name, rule), Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name},
		},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &match,
			FailurePolicy:    new(admissionregistrationv1.Fail),
		},
	}
}

// refuse makes a policy refuse requests for which the expression is false.
func refuse(policy *admissionregistrationv1.ValidatingAdmissionPolicy, unless, message string) {
	policy.Spec.Validations = append(policy.Spec.Validations, admissionregistrationv1.Validation{
		Expression: unless, MessageExpression: message, Reason: new(metav1.StatusReasonForbidden),
	})
}

func binding(policy *admissionregistrationv1.ValidatingAdmissionPolicy, options Options) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	bound := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name, Labels: policy.Labels},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	if options.Audit {
		bound.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
	}
	if policy.Spec.ParamKind != nil {
		bound.Spec.ParamRef = &admissionregistrationv1.ParamRef{
			Namespace: options.Election.Namespace, Name: options.Election.Name,
			// Deny would refuse the requests of all users for objects of the ring without an election Lease. Nobody
			// but administrators can delete it: see the rule Election.
			ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
		}
	}
	return bound
}

// membership protects the Leases of the ring's shards.
func membership(ring *shardingv1alpha1.ControllerRing, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Membership, admissionregistrationv1.MatchResources{
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name}},
		ResourceRules:  []admissionregistrationv1.NamedRuleWithOperations{leaseRule()},
	})
	p.Spec.Variables = append(e.caller(), e.lease(), e.elected())
	if e.options.inProcess() {
		p.Spec.ParamKind = leaseKind()
	}
	refuse(p, "variables.shard && variables.inOwnNamespace && variables.pod == variables.lease ||\n"+
		"variables.sharder && request.operation != 'CREATE' ||\n"+
		"variables.elected && request.operation != 'CREATE' ||\n"+administrator(ring),
		quote("only the pod ")+" + variables.lease + "+quote(" under a ServiceAccount of the ring "+ring.Name+
			", the sharder and those who may delete the ring may write this lease, not ")+" + variables.who")
	return p
}

// sharder protects against Leases that announce an in-process sharder: an external sharder leaves the Leases that it
// refuses to the other one.
func sharder(ring *shardingv1alpha1.ControllerRing, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Sharder, admissionregistrationv1.MatchResources{
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{shardingv1alpha1.LabelSharder: ring.Name}},
		ResourceRules:  []admissionregistrationv1.NamedRuleWithOperations{leaseRule()},
	})
	protectElection(p, ring, e)
	return p
}

// election protects the Lease that tells which instance may move objects.
func election(ring *shardingv1alpha1.ControllerRing, options Options, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Election, admissionregistrationv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{namespaceName: options.Election.Namespace}},
		ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{leaseRule()},
	})
	// Not resourceNames, which do not match the Leases of a request that deletes a collection.
	p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "election", Expression: "(object == null ? oldObject : object).metadata.name == " + quote(options.Election.Name),
	}}
	protectElection(p, ring, e)
	return p
}

func protectElection(p *admissionregistrationv1.ValidatingAdmissionPolicy, ring *shardingv1alpha1.ControllerRing, e expressions) {
	p.Spec.Variables = append(e.caller(), e.holder())
	refuse(p, "variables.shard && variables.inOwnNamespace && variables.pod != '' && request.operation != 'DELETE' &&\n"+
		"(variables.holder == '' || variables.holder.startsWith(variables.pod + '_')) ||\n"+administrator(ring),
		quote("only shards of the ring "+ring.Name+" may hold this lease, each in its own name, and only those who may delete the ring may delete it, not ")+
			" + variables.who")
}

// labels protects the record of owners. It lets the webhook assign an object that has no owner, in the request of any
// user, so a user can do so too: the API server does not show where a label comes from.
func labels(ring *shardingv1alpha1.ControllerRing, options Options, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Labels, admissionregistrationv1.MatchResources{
		ResourceRules: e.resourceRules(admissionregistrationv1.Create, admissionregistrationv1.Update),
	})
	if options.inProcess() {
		p.Spec.ParamKind = leaseKind()
	}
	p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "labels-changed", Expression: e.labelsChanged()}}
	p.Spec.Variables = append(e.caller(), e.elected(), e.owner(), e.namespaceSelected(), e.onlyAssigned())
	refuse(p, "variables.namespaceSelected && (request.operation == 'CREATE' || variables.onlyAssigned) ||\n"+
		"variables.shard && variables.pod != '' && variables.owner == variables.pod ||\n"+
		"variables.sharder || variables.elected ||\n"+administrator(ring),
		"variables.namespaceSelected ? "+
			quote("only the owner of an object and the sharder of the ring "+ring.Name+" may change its shard and drain labels, not ")+" + variables.who : "+
			quote("the ring "+ring.Name+" does not select this namespace: only those who may delete the ring may change the ring's shard and drain labels here"))
	return p
}

// fence refuses writes of a shard to objects of another one. A write that changes nothing but the labels of the ring is
// left to the rule Labels.
func fence(ring *shardingv1alpha1.ControllerRing, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Fence, admissionregistrationv1.MatchResources{
		ResourceRules: e.resourceRules(admissionregistrationv1.Update, admissionregistrationv1.Delete),
	})
	p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{e.fromShard()}
	p.Spec.Variables = append(e.caller(), e.owner(), e.onlyLabels())
	refuse(p, "variables.owner == '' || variables.owner == variables.pod || variables.onlyLabels",
		quote("fenced: the object is owned by ")+" + variables.owner + "+quote(", not by ")+" + "+
			"(variables.pod == '' ? variables.who + "+quote(", whose token is not bound to a pod")+" : variables.pod)")
	return p
}

// scale refuses writes of a shard to the scale of objects.
func scale(ring *shardingv1alpha1.ControllerRing, e expressions) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := policy(ring, Scale, admissionregistrationv1.MatchResources{ResourceRules: e.scaleRules()})
	p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{e.fromShard()}
	p.Spec.Variables = e.caller()
	refuse(p, "false", quote("fenced: the subresource scale does not show the owner of the object: update spec.replicas of the object instead, as ")+" + variables.who")
	return p
}

// namespaceName is the label that every namespace has.
const namespaceName = "kubernetes.io/metadata.name"

func leaseKind() *admissionregistrationv1.ParamKind {
	return &admissionregistrationv1.ParamKind{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
}

func leaseRule() admissionregistrationv1.NamedRuleWithOperations {
	return rule("coordination.k8s.io", []string{"leases"}, admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete)
}

func rule(group string, resources []string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: new(admissionregistrationv1.AllScopes),
		},
	}}
}

// Same reports whether an installed policy has the rules of a wanted one.
func Same(wanted, installed *admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return equality.Semantic.DeepEqual(wanted.Spec, installed.Spec)
}

// Enforces reports whether a binding makes the API server refuse requests, everywhere.
func Enforces(wanted, installed *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return installed.Spec.PolicyName == wanted.Spec.PolicyName && installed.Spec.MatchResources == nil &&
		slices.Contains(installed.Spec.ValidationActions, admissionregistrationv1.Deny) &&
		equality.Semantic.DeepEqual(installed.Spec.ParamRef, wanted.Spec.ParamRef)
}

// quote returns a string literal of CEL.
func quote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
