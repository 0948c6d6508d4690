//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestSharding installs the sharder as users do, shards an operator, and scales, rolls out and kills both.
// After each step every object and its child have the same live owner, and no request of the objects' user
// has failed.
func TestSharding(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.install()
	s := c.shard(3)

	s.step("scaled up", 4, func() { c.kubectl("", "scale", "-n", c.namespace, "deployment/budget", "--replicas=4") })
	s.step("scaled down", 2, func() { c.kubectl("", "scale", "-n", c.namespace, "deployment/budget", "--replicas=2") })
	s.step("restarted by a rollout", 2, func() {
		c.kubectl("", "rollout", "restart", "-n", c.namespace, "deployment/budget")
		c.kubectl("", "rollout", "status", "-n", c.namespace, "deployment/budget", "--timeout="+testTimeout.String())
	})
	renewed := c.renewCertificate() // which takes up to a minute
	s.step("shard killed", 2, func() {
		c.kubectl("", "delete", "pod", "-n", c.namespace, s.oneShard(), "--force", "--grace-period=0")
	})
	s.step("certificate renewed", 2, renewed)
	s.step("leader of the sharder replaced", 2, c.replaceLeader)
	s.step("sharder restarted by a rollout", 2, func() {
		c.kubectl("", "rollout", "restart", "-n", system, "deployment/sharder")
		c.kubectl("", "rollout", "status", "-n", system, "deployment/sharder", "--timeout="+testTimeout.String())
		c.sharderIsReady()
	})
	s.leave()
}

// shardedOperator is an operator with its ring, and a namespace with objects.
type shardedOperator struct {
	*cluster
	ringmaster func(stdin string, args ...string) string
	// ring has the name of the operator's namespace.
	ring, objects string
	user          *user
}

// standing is the number of permanent objects, beside those of the user.
const standing = 30

// shard follows docs/how-to/install.md with the sample operator.
func (c *cluster) shard(replicas int32) *shardedOperator {
	c.Helper()
	s := &shardedOperator{cluster: c, ringmaster: c.ringmaster(), ring: c.namespace}
	another := connect(c.T)
	s.objects = another.namespace
	c.kubectl(fmt.Sprintf(ringManifest, s.ring, s.objects), "apply", "-f", "-")
	c.Cleanup(func() { c.kubectl("", "delete", "controllerring", "--ignore-not-found", s.ring) })
	c.kubectl(s.ringmaster("", "role", s.ring), "apply", "-f", "-")
	c.kubectl(s.ringmaster("", "role", s.ring, "--shard", c.namespace+"/"+budget), "apply", "-f", "-")
	c.kubectl(fmt.Sprintf(budgetRole, c.namespace), "apply", "-f", "-")
	c.Cleanup(func() {
		c.kubectl("", "delete", "clusterroles,clusterrolebindings", "-l", shardingv1alpha1.LabelControllerRing+"="+s.ring)
		c.kubectl("", "delete", "clusterrole/"+c.namespace, "clusterrolebinding/"+c.namespace)
	})
	// Objects that exist before the shards start.
	for i := range standing {
		if _, err := c.client.AppsV1().Deployments(s.objects).Create(c.Context(), site(fmt.Sprintf("standing-%d", i)), metav1.CreateOptions{}); err != nil {
			c.Fatal(err)
		}
	}
	if _, err := c.client.AppsV1().Deployments(c.namespace).Create(c.Context(), budgetDeployment(s.ring, replicas), metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.kubectl("", "wait", "--for=condition=Ready", "controllerring/"+s.ring, "--timeout="+testTimeout.String())
	s.user = c.startUser(s.objects)
	s.step("started", int(replicas), func() {})
	return s
}

// step does something to the shards, and waits until all objects have an owner among the wanted number of shards.
func (s *shardedOperator) step(description string, shards int, do func()) {
	s.Helper()
	began := time.Now()
	do()
	s.owned(shards)
	s.Logf("%s: all objects have a live owner after %.1f s", description, time.Since(began).Seconds())
	s.user.expectNoFailures(s.cluster)
}

// owned waits until the wanted number of shards is live, each with objects, and every object and its child
// have one of them as their owner.
func (s *shardedOperator) owned(shards int) {
	s.Helper()
	s.eventually(func(g Gomega) {
		live := s.liveShards(g)
		g.Expect(live).To(HaveLen(shards))
		deployments, err := s.client.AppsV1().Deployments(s.objects).List(s.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		budgets, err := s.client.PolicyV1().PodDisruptionBudgets(s.objects).List(s.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		children := map[string]string{}
		for i := range budgets.Items {
			children[budgets.Items[i].Name] = budgets.Items[i].Labels[shardingv1alpha1.LabelShard(s.ring)]
		}
		for i := range deployments.Items {
			object := &deployments.Items[i]
			if s.user.isYoung(object.Name) || object.DeletionTimestamp != nil {
				continue
			}
			shard := object.Labels[shardingv1alpha1.LabelShard(s.ring)]
			g.Expect(live).To(HaveKey(shard), "the shard of %s", object.Name)
			g.Expect(object.Labels).NotTo(HaveKey(shardingv1alpha1.LabelDrain(s.ring)), "%s is not drained yet", object.Name)
			g.Expect(children).To(HaveKeyWithValue(object.Name, shard), "the child of %s", object.Name)
			live[shard]++
		}
		for shard, objects := range live {
			g.Expect(objects).NotTo(BeZero(), "%s has no objects", shard)
		}
	}, "every object has a live owner of %d", shards)
}

// liveShards are the ready pods that hold their Lease.
func (s *shardedOperator) liveShards(g Gomega) map[string]int {
	pods, err := s.client.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + budget})
	g.Expect(err).NotTo(HaveOccurred())
	live := map[string]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s is being deleted", pod.Name)
		g.Expect(ready(pod)).To(BeTrue(), "pod %s is not ready", pod.Name)
		lease, err := s.client.CoordinationV1().Leases(s.namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelControllerRing, s.ring))
		g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.Name)))
		live[pod.Name] = 0
	}
	return live
}

// oneShard is the name of one of the pods.
func (s *shardedOperator) oneShard() string {
	s.Helper()
	for name := range s.liveShards(NewWithT(s)) {
		return name
	}
	s.Fatal("the operator has no shards")
	return ""
}

// leave uninstalls the operator and its ring, as docs/how-to/install.md describes.
func (s *shardedOperator) leave() {
	s.Helper()
	g := NewWithT(s)
	s.user.stop()
	s.user.ended.Wait()
	s.user.expectNoFailures(s.cluster)
	s.kubectl("", "delete", "deployment", "-n", s.namespace, budget, "--cascade=foreground", "--timeout="+testTimeout.String())
	s.kubectl("", "delete", "controllerring", s.ring)
	s.Log(s.ringmaster("", "unlabel", s.ring, "--yes"))
	for _, label := range []string{shardingv1alpha1.LabelShard(s.ring), shardingv1alpha1.LabelDrain(s.ring)} {
		left, err := s.client.AppsV1().Deployments(s.objects).List(s.Context(), metav1.ListOptions{LabelSelector: label})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left.Items).To(BeEmpty(), "objects with the label %s", label)
	}
	all, err := s.client.AppsV1().Deployments(s.objects).List(s.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(all.Items)).To(BeNumerically(">=", standing), "the objects remain")
}
