package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// expressions are the parts of the CEL expressions of a ring.
type expressions struct {
	ring     *shardingv1alpha1.ControllerRing
	options  Options
	accounts []string // the usernames of its shards
}

func expressionsOf(ring *shardingv1alpha1.ControllerRing, options Options) expressions {
	e := expressions{ring: ring, options: options}
	for _, account := range ring.Spec.Shards.ServiceAccounts {
		e.accounts = append(e.accounts, username(account.Namespace, account.Name))
	}
	slices.Sort(e.accounts)
	return e
}

func username(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

func variable(name, expression string) admissionregistrationv1.Variable {
	return admissionregistrationv1.Variable{Name: name, Expression: expression}
}

// podName is the extra of a user whose token is bound to a pod.
const podName = "authentication.kubernetes.io/pod-name"

// caller are the variables about the caller: who, pod, shard, inOwnNamespace and sharder.
func (e expressions) caller() []admissionregistrationv1.Variable {
	bound := "has(request.userInfo.extra) && " + quote(podName) + " in request.userInfo.extra && request.userInfo.extra[" + quote(podName) + "].size() > 0"
	isSharder := "false"
	if !e.options.inProcess() {
		isSharder = "request.userInfo.username == " + quote(username(e.options.Sharder.Namespace, e.options.Sharder.Name))
	}
	return []admissionregistrationv1.Variable{
		// The pod that the caller's token is bound to.
		variable("pod", bound+" ? request.userInfo.extra["+quote(podName)+"][0] : ''"),
		variable("who", "variables.pod == '' ? request.userInfo.username : variables.pod + ' (' + request.userInfo.username + ')'"),
		variable("shard", e.isShard()),
		variable("inOwnNamespace", "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')"),
		variable("sharder", isSharder),
	}
}

// isShard is true for the ServiceAccounts of the ring's shards.
func (e expressions) isShard() string { return "request.userInfo.username in " + list(e.accounts) }

// fromShard matches the requests of the ring's shards.
func (e expressions) fromShard() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: "from-a-shard", Expression: e.isShard()}
}

// administrator is true for those who may delete the ring. They include the controllers that delete namespaces and
// garbage. It comes last in a condition, because it asks the authorizer.
func administrator(ring *shardingv1alpha1.ControllerRing) string {
	return fmt.Sprintf("authorizer.group(%s).resource('controllerrings').name(%s).check('delete').allowed()",
		quote(shardingv1alpha1.SchemeGroupVersion.Group), quote(ring.Name))
}

// elected is true for the instance that the election Lease names as the in-process sharder.
func (e expressions) elected() admissionregistrationv1.Variable {
	expression := "false"
	if e.options.inProcess() {
		expression = "variables.shard && variables.pod != '' && has(params.spec.holderIdentity) && params.spec.holderIdentity.startsWith(variables.pod + '_')"
	}
	return variable("elected", expression)
}

// lease is the name of the Lease.
func (e expressions) lease() admissionregistrationv1.Variable {
	return variable("lease", "object == null ? oldObject.metadata.name : object.metadata.name")
}

// holder is the holder that a write records.
func (e expressions) holder() admissionregistrationv1.Variable {
	return variable("holder", "object != null && has(object.spec) && has(object.spec.holderIdentity) ? object.spec.holderIdentity : ''")
}

// The keys of the labels.
func (e expressions) shardLabel() string { return quote(shardingv1alpha1.LabelShard(e.ring.Name)) }
func (e expressions) drainLabel() string { return quote(shardingv1alpha1.LabelDrain(e.ring.Name)) }

// owner is the owner before the request, or the empty string.
func (e expressions) owner() admissionregistrationv1.Variable {
	return variable("owner", labelOf("oldObject", e.shardLabel()))
}

// labelOf is the value of a label of an object that may be null, or the empty string.
func labelOf(object, key string) string {
	return fmt.Sprintf("%[1]s != null && has(%[1]s.metadata.labels) && %[2]s in %[1]s.metadata.labels ? %[1]s.metadata.labels[%[2]s] : ''", object, key)
}

// hasLabel is true for an object with a label, whatever its value.
func hasLabel(object, key string) string {
	return fmt.Sprintf("(%[1]s != null && has(%[1]s.metadata.labels) && %[2]s in %[1]s.metadata.labels)", object, key)
}

// labelsChanged is true for a request that changes the shard or drain label. Most requests do not, so it is a match
// condition.
func (e expressions) labelsChanged() string {
	var changed []string
	for _, key := range []string{e.shardLabel(), e.drainLabel()} {
		changed = append(changed,
			hasLabel("object", key)+" != "+hasLabel("oldObject", key),
			"("+labelOf("object", key)+") != ("+labelOf("oldObject", key)+")")
	}
	return strings.Join(changed, " ||\n")
}

// onlyAssigned is true for an update that gives an object without owner an owner, and does nothing to its drain label.
func (e expressions) onlyAssigned() admissionregistrationv1.Variable {
	return variable("onlyAssigned", "variables.owner == '' && "+hasLabel("object", e.shardLabel())+
		" && !"+hasLabel("object", e.drainLabel())+" && !"+hasLabel("oldObject", e.drainLabel()))
}

// onlyLabels is true for an update that changes nothing but the labels of the ring. It compares from the outside in:
// everything but the metadata, then the metadata but the labels, then the labels.
func (e expressions) onlyLabels() admissionregistrationv1.Variable {
	return variable("onlyLabels", "request.operation == 'UPDATE' && !has(request.subResource) &&\n"+
		sameExcept("object", "oldObject", "'metadata'")+" &&\n"+
		sameExcept("object.metadata", "oldObject.metadata", "'labels', 'managedFields', 'resourceVersion', 'generation'")+" &&\n"+
		"(has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}).all(k, k in ["+e.shardLabel()+", "+e.drainLabel()+"] ||\n"+
		"  has(object.metadata.labels) && k in object.metadata.labels && object.metadata.labels[k] == oldObject.metadata.labels[k]) &&\n"+
		"(has(object.metadata.labels) ? object.metadata.labels : {}).all(k, k in ["+e.shardLabel()+", "+e.drainLabel()+"] ||\n"+
		"  has(oldObject.metadata.labels) && k in oldObject.metadata.labels)")
}

// sameExcept is true for two maps that are the same but for some keys.
func sameExcept(a, b, keys string) string {
	return fmt.Sprintf("%[1]s.all(k, k in [%[3]s] || k in %[2]s && %[1]s[k] == %[2]s[k]) && %[2]s.all(k, k in [%[3]s] || k in %[1]s)", a, b, keys)
}

// namespaceSelected is true if the ring selects the namespace of the object. It does not restrict cluster-scoped
// objects, nor rings without a selector, whose default is in the configuration of the sharder.
func (e expressions) namespaceSelected() admissionregistrationv1.Variable {
	expression := "true"
	if selector := e.ring.Spec.NamespaceSelector; selector != nil {
		if selected := matches(selector); selected != "" {
			expression = "namespaceObject == null || " + selected
		}
	}
	return variable("namespaceSelected", expression)
}

// matches is true if the labels of the namespace match a selector. It is empty for a selector that matches all.
func matches(selector *metav1.LabelSelector) string {
	var all []string
	has := func(key string) string { return hasLabel("namespaceObject", quote(key)) }
	value := func(key string) string { return "namespaceObject.metadata.labels[" + quote(key) + "]" }
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, has(key)+" && "+value(key)+" == "+quote(selector.MatchLabels[key]))
	}
	for _, expression := range selector.MatchExpressions {
		key := expression.Key
		in := has(key) + " && " + value(key) + " in " + list(expression.Values)
		switch expression.Operator {
		case metav1.LabelSelectorOpIn:
			all = append(all, in)
		case metav1.LabelSelectorOpNotIn:
			all = append(all, "!("+in+")")
		case metav1.LabelSelectorOpExists:
			all = append(all, has(key))
		case metav1.LabelSelectorOpDoesNotExist:
			all = append(all, "!"+has(key))
		}
	}
	return strings.Join(all, " && ")
}

// list is a list of string literals.
func list(values []string) string {
	quoted := make([]string, len(values))
	for i, value := range values {
		quoted[i] = quote(value)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// resourceRules match the resources of the ring with their subresources.
func (e expressions) resourceRules(operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.NamedRuleWithOperations {
	return e.rules([]string{"", "/*"}, operations...)
}

// scaleRules match the scale of the resources of the ring.
func (e expressions) scaleRules() []admissionregistrationv1.NamedRuleWithOperations {
	return e.rules([]string{"/scale"}, admissionregistrationv1.Update)
}

func (e expressions) rules(suffixes []string, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.NamedRuleWithOperations {
	groups := map[string][]string{}
	for i := range e.ring.Spec.Resources {
		main := &e.ring.Spec.Resources[i]
		for _, resource := range append([]shardingv1alpha1.GroupResource{main.GroupResource}, main.ControlledResources...) {
			if !slices.Contains(groups[resource.Group], resource.Resource) {
				groups[resource.Group] = append(groups[resource.Group], resource.Resource)
			}
		}
	}
	var all []admissionregistrationv1.NamedRuleWithOperations
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		var resources []string
		for _, resource := range slices.Sorted(slices.Values(groups[group])) {
			for _, suffix := range suffixes {
				resources = append(resources, resource+suffix)
			}
		}
		all = append(all, rule(group, resources, operations...))
	}
	return all
}
