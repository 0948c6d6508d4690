package rings

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// Fence is whether the policies of a ring are in force, and if not, why.
type Fence struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// fences reviews the policies of rings: when a ring has changed, with backoff while the ring is not fenced, and seldom
// otherwise. It keeps one review for each ring.
type fences struct {
	mu      sync.Mutex
	reviews map[string]*fenceReview
	// account is the ServiceAccount of this process, once it is known.
	account types.NamespacedName
}

// fenceReview is the last result for a ring.
type fenceReview struct {
	uid        types.UID
	generation int64
	fence      Fence
	at         time.Time
	unfenced   int // reviews in a row with another result than Fenced
}

// next returns when to review again.
func (r *fenceReview) next() time.Time {
	if r.unfenced == 0 {
		return r.at.Add(recheckAfter)
	}
	return r.at.Add(backoff(r.unfenced))
}

// find returns whether a ring is fenced, and when to look again, which is zero if only a change of the ring matters.
func (f *fences) find(ctx context.Context, reader client.Reader, users client.Writer, ring *shardingv1alpha1.ControllerRing, now time.Time) (Fence, time.Time) {
	if fence := declaredFence(ring); fence.Reason != "" {
		return fence, time.Time{}
	}
	f.mu.Lock()
	last := f.reviews[ring.Name]
	f.mu.Unlock()
	if last == nil || last.uid != ring.UID || last.generation != ring.Generation || !now.Before(last.next()) {
		following := &fenceReview{uid: ring.UID, generation: ring.Generation, at: now, fence: f.review(ctx, reader, users, ring)}
		if following.fence.Status != metav1.ConditionTrue {
			following.unfenced = 1
			if last != nil && last.uid == ring.UID && last.generation == ring.Generation {
				following.unfenced += last.unfenced
			}
		}
		f.mu.Lock()
		if f.reviews == nil {
			f.reviews = map[string]*fenceReview{}
		}
		f.reviews[ring.Name] = following
		f.mu.Unlock()
		last = following
	}
	return last.fence, last.next()
}

func (f *fences) forget(ring string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reviews, ring)
}

// declaredFence returns why the spec of a ring keeps it from being fenced.
func declaredFence(ring *shardingv1alpha1.ControllerRing) Fence {
	switch {
	case len(ring.AcceptedNamespaces()) == 0:
		return Fence{
			metav1.ConditionFalse, shardingv1alpha1.ReasonOpenRing,
			"The ring is open: everyone who can create Leases in any namespace can add a shard. Name the ServiceAccounts of the shards in spec.shards.serviceAccounts.",
		}
	case ring.Spec.Shards == nil || len(ring.Spec.Shards.ServiceAccounts) == 0:
		return Fence{
			metav1.ConditionFalse, shardingv1alpha1.ReasonNoServiceAccounts,
			"Everyone who can create Leases in the accepted namespaces can add a shard. Name the ServiceAccounts of the shards in spec.shards.serviceAccounts, and apply what 'ringmaster policy " + ring.Name + "' prints.",
		}
	case len(ring.Spec.Resources) == 0:
		return Fence{metav1.ConditionFalse, shardingv1alpha1.ReasonPolicyMissing, "The ring lists no resources, so it has no policies."}
	}
	return Fence{}
}

// review reads the policies of a ring.
func (f *fences) review(ctx context.Context, reader client.Reader, users client.Writer, ring *shardingv1alpha1.ControllerRing) Fence {
	account, err := f.ownAccount(ctx, users)
	if err != nil {
		return notReadable(fmt.Errorf("reviewing the sharder's own user: %w", err))
	}
	wanted, err := policies.ForRing(ring, policies.Options{Sharder: account})
	if err != nil {
		return Fence{metav1.ConditionFalse, shardingv1alpha1.ReasonPolicyMissing, err.Error()}
	}
	apply := fmt.Sprintf(" Apply what 'ringmaster policy %s' prints.", ring.Name)
	scales := false
	for i := 0; i < len(wanted); i += 2 {
		fence, err := compare(ctx, reader, wanted[i], wanted[i+1])
		optional := wanted[i].(client.Object).GetName() == policies.Name(ring.Name, policies.Scale) && fence.Reason == shardingv1alpha1.ReasonPolicyMissing
		switch {
		case err != nil:
			return notReadable(err)
		case optional:
			scales = true
		case fence.Reason != "":
			fence.Message += apply
			return fence
		}
	}
	fence := Fence{metav1.ConditionTrue, shardingv1alpha1.ReasonFenced, "The API server refuses Leases of strangers, and writes by shards to objects of other shards."}
	if scales {
		fence.Message += " Shards may write the subresource scale of all objects."
	}
	return fence
}

// compare compares a policy and its binding with the installed ones.
func compare(ctx context.Context, reader client.Reader, wanted, binding runtime.Object) (Fence, error) {
	policy, bound := wanted.(*admissionregistrationv1.ValidatingAdmissionPolicy), binding.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	missing := func(kind string) Fence {
		return Fence{metav1.ConditionFalse, shardingv1alpha1.ReasonPolicyMissing, fmt.Sprintf("%s %s not found.", kind, policy.Name)}
	}
	installed := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: policy.Name}, installed); {
	case apierrors.IsNotFound(err):
		return missing("ValidatingAdmissionPolicy"), nil
	case err != nil:
		return Fence{}, err
	case !policies.Same(policy, installed):
		return Fence{metav1.ConditionFalse, shardingv1alpha1.ReasonPolicyDiffers, fmt.Sprintf(
			"ValidatingAdmissionPolicy %s does not have the rules for this version of the ring.", policy.Name)}, nil
	}
	installedBinding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: policy.Name}, installedBinding); {
	case apierrors.IsNotFound(err):
		return missing("ValidatingAdmissionPolicyBinding"), nil
	case err != nil:
		return Fence{}, err
	case !policies.Enforces(bound, installedBinding):
		return Fence{metav1.ConditionFalse, shardingv1alpha1.ReasonAuditOnly, fmt.Sprintf(
			"ValidatingAdmissionPolicyBinding %s does not deny requests everywhere.", policy.Name)}, nil
	}
	return Fence{}, nil
}

func notReadable(err error) Fence {
	return Fence{metav1.ConditionUnknown, shardingv1alpha1.ReasonNotReadable, fmt.Sprintf(
		"The sharder cannot read the policies of the ring, retrying: %v. If it lacks the permission, apply config/rbac.", err)}
}

// ownAccount returns the ServiceAccount of this process. The policies exempt it.
func (f *fences) ownAccount(ctx context.Context, users client.Writer) (types.NamespacedName, error) {
	f.mu.Lock()
	known := f.account
	f.mu.Unlock()
	if known.Name != "" {
		return known, nil
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := users.Create(ctx, review); err != nil {
		return types.NamespacedName{}, err
	}
	namespace, name, _ := strings.Cut(strings.TrimPrefix(review.Status.UserInfo.Username, "system:serviceaccount:"), ":")
	known = types.NamespacedName{Namespace: namespace, Name: name}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account = known
	return known, nil
}

// fencedCondition reports whether policies protect the ring, and shards that they refuse or would refuse.
func fencedCondition(facts *Facts) metav1.Condition {
	condition := metav1.Condition{
		Type: shardingv1alpha1.ConditionFenced, Status: facts.Fence.Status, Reason: facts.Fence.Reason, Message: facts.Fence.Message,
	}
	unbound := unboundShards(facts.Shards)
	if len(unbound) == 0 || condition.Reason == shardingv1alpha1.ReasonOpenRing || condition.Reason == shardingv1alpha1.ReasonNoServiceAccounts {
		return condition
	}
	explanation := fmt.Sprintf("The tokens of these shards are not bound to pods of their names: %s. A shard needs the name of its pod, and the token that its kubelet mounts.",
		prose.List(unbound))
	if condition.Status == metav1.ConditionTrue {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, shardingv1alpha1.ReasonUnboundShards, explanation+" The policies refuse their writes."
		return condition
	}
	condition.Message += " Before that: " + explanation
	return condition
}

// maxUnbound is how many shards a message names.
const maxUnbound = 5

// unboundShards returns shards whose tokens are not bound to the pods of their names. A shard that does not declare its
// pod is not among them.
func unboundShards(shards []members.Shard) (names []string) {
	for _, shard := range shards {
		if !shard.State.Member() || shard.Pod == "" || shard.Pod == shard.Name {
			continue
		}
		if len(names) == maxUnbound {
			return append(names, "others")
		}
		names = append(names, shard.Name)
	}
	return names
}
