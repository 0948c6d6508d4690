package attack_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

const (
	// zombieWrites is the least number of writes that a shard sends before, and that arrive after, it has lost its objects.
	zombieWrites = 500
	// zombieObjects are the objects of the ring, of which each of two shards owns about a half.
	zombieObjects = 60
)

// TestZombie holds the writes of a shard back on the network until its Lease has expired and another shard owns its
// objects, and then lets them through. The API server accepts none of them. Without the fence, it accepts them.
func TestZombie(t *testing.T) {
	for name, test := range map[string]struct {
		fenced   bool
		accepted func(int) bool
	}{
		"fenced":   {true, func(accepted int) bool { return accepted == 0 }},
		"unfenced": {false, func(accepted int) bool { return accepted >= zombieWrites }},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			if test.fenced {
				f.protect(f.options())
			}
			f.StartSharder(t, rig.SharderOptions{
				Roles:  []string{"test/attack/testdata/ring-role.yaml"},
				Config: "leaderElection: {leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 500ms}",
			})
			if test.fenced {
				f.Eventually(func() bool { return f.conditionIs(shardingv1alpha1.ConditionFenced) }).Should(BeTrue())
			}
			proxy := f.Proxy(t)
			f.joins("pod-b", f.configs["pod-b"])
			zombie := rest.CopyConfig(f.configs["pod-a"])
			zombie.Host = proxy.URL()
			f.joins("pod-a", zombie)
			f.Eventually(func() bool { return f.conditionIs(shardingv1alpha1.ConditionReady) }).Should(BeTrue())
			for range zombieObjects {
				f.deployment(f.tenant, "")
			}
			var owned []appsv1.Deployment
			f.Eventually(func() int {
				owned = f.ownedBy("pod-a")
				return len(owned) + len(f.ownedBy("pod-b"))
			}).Should(Equal(zombieObjects))
			f.Expect(owned).NotTo(BeEmpty())

			held, err := client.New(zombie, client.Options{Scheme: f.Client.Scheme(), Mapper: f.Client.RESTMapper()})
			f.Expect(err).NotTo(HaveOccurred())
			proxy.Cut(faultproxy.ToServer)
			results := f.writeAll(held, owned)
			f.Eventually(func() int { return len(f.ownedBy("pod-b")) }).Should(Equal(zombieObjects), "pod-b owns all objects")
			proxy.Heal()
			accepted, sent := 0, 0
			for err := range results {
				sent++
				switch {
				case err == nil:
					accepted++
				case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), policies.Name(f.ring.Name, policies.Fence)):
					t.Errorf("an unexpected response: %v", err)
				}
			}
			t.Logf("of %d writes of a former owner, %d were accepted", sent, accepted)
			if sent < zombieWrites || !test.accepted(accepted) {
				t.Errorf("of %d writes of a former owner, %d were accepted", sent, accepted)
			}
		})
	}
}

// joins makes a process a shard of the ring until the test ends.
func (f *fixture) joins(name string, config *rest.Config) {
	f.t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	leases, err := coordinationv1client.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	lease := &shard.Lease{
		Client: leases, Ring: f.ring.Name, Namespace: f.system, Name: name,
		Duration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}
	ctx, leave := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { _ = lease.Run(ctx, func(working context.Context) { <-working.Done() }) })
	f.t.Cleanup(func() {
		leave()
		ended.Wait()
	})
}

// writeAll begins at least zombieWrites writes of the objects. The channel has their results.
func (f *fixture) writeAll(as client.Client, objects []appsv1.Deployment) <-chan error {
	rounds := (zombieWrites + len(objects) - 1) / len(objects)
	results := make(chan error, rounds*len(objects))
	var group sync.WaitGroup
	for range rounds {
		for i := range objects {
			group.Go(func() {
				results <- as.Patch(context.Background(), objects[i].DeepCopy(), merge(`{"metadata":{"annotations":{"written-by":"a-zombie"}}}`))
			})
		}
	}
	go func() {
		group.Wait()
		close(results)
	}()
	return results
}

// ownedBy returns the main objects of a shard that are not being drained.
func (f *fixture) ownedBy(name string) []appsv1.Deployment {
	f.t.Helper()
	list := &appsv1.DeploymentList{}
	f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.tenant), client.MatchingLabels{f.shardLabel(): name})).To(Succeed())
	return list.Items
}

func (f *fixture) conditionIs(kind string) bool {
	ring := &shardingv1alpha1.ControllerRing{}
	err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(f.ring), ring)
	return err == nil && meta.IsStatusConditionTrue(ring.Status.Conditions, kind)
}
