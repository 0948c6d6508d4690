package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
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

	// Optional is set if objects are assigned and reconciled without the permission.
	Optional bool
}

// qualifiedResource is the resource as in an RBAC rule, with its group.
func (q Question) qualifiedResource() string {
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	if q.Group != "" {
		resource += "." + q.Group
	}
	if q.Name != "" {
		resource += " " + q.Name
	}
	return resource
}

// questionsOf expands the rules of roles into questions about an account. Roles count in a namespace, by
// default their own, ClusterRoles everywhere.
func questionsOf(objects []runtime.Object, template Question, namespace string) (questions []Question) {
	for _, object := range objects {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			questions = append(questions, expand(role.Rules, template)...)
		case *rbacv1.Role:
			template := template
			template.Namespace = cmp.Or(namespace, role.Namespace)
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
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() == crdName })
	if i < 0 {
		return nil, fmt.Errorf("reading the embedded CRD: %s not found", crdName)
	}
	return objects[i].Object, nil
}

// questions returns the permissions that the sharder and the shards need, as far as their accounts are known.
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
			questions = append(questions, questionsOf(roles.ForSharder(r.spec()), template, "")...)
		}
		for _, account := range f.ShardAccounts[r.name].Value {
			questions = append(questions, r.questions(account)...)
		}
	}
	return questions, nil
}

// questions returns what the shards of the ring need that run as an account.
func (r *ring) questions(account types.NamespacedName) []Question {
	spec, needed := r.spec(), roles.ForShards
	if r.inProcess() {
		needed = roles.ForInstances
		if selectsByName(spec.Spec.NamespaceSelector) { // then it reads no namespaces
			spec = spec.DeepCopy()
			spec.Spec.NamespaceSelector = nil
		}
	}
	questions := questionsOf(needed(spec, account), Question{Ring: r.name, Account: account}, account.Namespace)
	// Shards of other implementations do not hand their objects over to each other.
	foreign := !slices.ContainsFunc(r.available(), func(s shard) bool { return s.Annotations[shardingv1alpha1.AnnotationInstance] != "" })
	for i := range questions {
		q := &questions[i]
		q.Optional = q.Resource == "events" || q.Resource == "controllerrings" || foreign && q.Resource == "leases" && q.Verb == "list"
	}
	return questions
}

// selectsByName reports whether a selector needs only the names of namespaces.
func selectsByName(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return true
	}
	for key := range selector.MatchLabels {
		if key != corev1.LabelMetadataName {
			return false
		}
	}
	return !slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
}

// maxAccessNamespaces is the maximum number of namespaces in which a permission is checked one by one.
const maxAccessNamespaces = 10

// inNamespaces returns the questions about the namespaces that a ring selects, for each denied question about
// all namespaces, by its index: shards whose caches are restricted to these namespaces do not need it.
func (f *Facts) inNamespaces() map[int][]Question {
	rings, all := map[string]*ring{}, map[int][]Question{}
	for _, r := range f.rings() {
		rings[r.name] = r
	}
	for i, answer := range f.Access.Value {
		q, r := answer.Question, rings[answer.Ring]
		served := f.Served.Value.Resources[schema.GroupResource{Group: q.Group, Resource: q.Resource}]
		if answer.Allowed || q.Sharder || q.Namespace != "" || r == nil || r.inProcess() || !served.Namespaced {
			continue // an in-process sharder needs its permissions in all namespaces
		}
		selector, err := r.selector(f)
		if err != nil {
			continue
		}
		namespaces := f.selected(selector)
		if len(namespaces) > maxAccessNamespaces {
			continue
		}
		for _, namespace := range namespaces {
			q.Namespace = namespace
			all[i] = append(all[i], q)
		}
	}
	return all
}
