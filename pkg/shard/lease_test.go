package shard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{Programs: map[string]rig.Program{"member": member, "operator": operator, "leader": leader}})
}

const (
	duration, deadline, retry = 6 * time.Second, 4 * time.Second, 500 * time.Millisecond
	testTimeout               = rig.Timeout
)

// member is a process that joins a ring with the name from its environment, and prints events.
func member(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lease := &shard.Lease{
		Client: client.CoordinationV1(), Ring: "ring",
		Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("SHARD"),
		Duration: duration, RenewDeadline: deadline, RetryPeriod: retry,
	}
	return lease.Run(ctx, func(ctx context.Context) {
		fmt.Println("working")
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond) // the last reconcile ends
		fmt.Println("ended")
	})
}

type fixture struct {
	*rig.Rig
	*WithT
	t *testing.T
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t}
	f.SetDefaultEventuallyTimeout(testTimeout)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	return f
}

// start runs a member. Processes with different names can have the same shard name.
func (f *fixture) start(process, name string) *rig.Running {
	f.t.Helper()
	return f.Start(f.t, rig.Process{
		Name: process, ServiceAccount: "member", Program: "member",
		Roles: []string{"pkg/shard/testdata/role.yaml"}, Env: []string{"SHARD=" + name, "POD_UID=" + name},
	})
}

func (f *fixture) working(p *rig.Running) {
	f.t.Helper()
	f.Eventually(func() string { return p.Tail(1) }).Should(Equal("working"))
}

func (f *fixture) lease(name string) *coordinationv1.Lease {
	f.t.Helper()
	lease, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	return lease
}

// end waits for a process to end and returns its last line.
func (f *fixture) end(p *rig.Running) (string, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), testTimeout)
	defer cancel()
	err := p.Wait(ctx)
	return p.Tail(1), err
}

func TestJoinAndLeave(t *testing.T) {
	f := setUp(t)
	p := f.start("a", "a")
	f.working(p)
	lease := f.lease("a")
	f.Expect(*lease.Spec.HolderIdentity).To(Equal("a"), "the contract's holder is the shard's name")
	f.Expect(lease.Labels).To(HaveKeyWithValue("alpha.sharding.timebertt.dev/controllerring", "ring"))
	f.Expect(*lease.Spec.LeaseDurationSeconds).To(Equal(int32(duration / time.Second)))
	f.Eventually(func() bool { return f.lease("a").Spec.RenewTime.After(lease.Spec.RenewTime.Time) }).Should(BeTrue(), "it is renewed")

	f.Expect(p.Terminate()).To(Succeed())
	// It is a member until its work has ended.
	f.Eventually(func() string { return *f.lease("a").Spec.HolderIdentity }).Should(BeEmpty())
	f.Expect(p.Tail(10)).To(ContainSubstring("ended"))
	_, err := f.end(p)
	f.Expect(err).NotTo(HaveOccurred())
}

func TestSecondProcessOfSameNameIsRefused(t *testing.T) {
	f := setUp(t)
	first := f.start("first", "same")
	f.working(first)
	output, err := f.end(f.start("second", "same"))
	f.Expect(err).To(HaveOccurred())
	f.Expect(output).To(ContainSubstring(shard.ErrNameTaken.Error()))
	f.Expect(first.Running()).To(BeTrue(), "the first one works on")
}

// TestRestartedContainerJoinsAtOnce is killed and restarted with the same name, long before its Lease
// expires.
func TestRestartedContainerJoinsAtOnce(t *testing.T) {
	f := setUp(t)
	first := f.start("first", "same")
	f.working(first)
	f.Expect(first.Kill()).To(Succeed())
	renewed := f.lease("same").Spec.RenewTime.Time
	second := f.start("second", "same")
	f.working(second)
	waited := f.lease("same").Spec.AcquireTime.Sub(renewed)
	t.Logf("it waited for %s of %s", waited.Round(time.Millisecond), duration)
	f.Expect(waited).To(BeNumerically("<", duration))
}

// TestShardStopsWhenLeaseIsTakenOver has the sharder take over the Lease of a live shard.
func TestShardStopsWhenLeaseIsTakenOver(t *testing.T) {
	f := setUp(t)
	p := f.start("a", "a")
	f.working(p)
	f.Eventually(func() error {
		lease, sharder := f.lease("a"), "shardlease-controller"
		lease.Spec.HolderIdentity = &sharder
		_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
	output, err := f.end(p)
	f.Expect(err).To(HaveOccurred())
	f.Expect(output).To(Equal(shard.ErrLeaseLost.Error()))
	f.Expect(p.Tail(10)).To(ContainSubstring("ended\n"), "its work has ended before")
	f.Expect(*f.lease("a").Spec.HolderIdentity).To(Equal("shardlease-controller"), "it did not take it back")
}

// TestShardRejoinsAfterTakeover without waiting for the expiry of the Lease.
func TestShardRejoinsAfterTakeover(t *testing.T) {
	f := setUp(t)
	long := int32(3600)
	sharder, now := "shardlease-controller", metav1.NowMicro()
	_, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &sharder, LeaseDurationSeconds: &long, RenewTime: &now, AcquireTime: &now},
	}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	f.working(f.start("a", "a"))
}

// TestShardStopsWhenLeaseIsDeleted as the sharder deletes the Lease of a shard that was dead for long.
func TestShardStopsWhenLeaseIsDeleted(t *testing.T) {
	f := setUp(t)
	p := f.start("a", "a")
	f.working(p)
	f.Expect(f.Clientset.CoordinationV1().Leases(f.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	output, err := f.end(p)
	f.Expect(err).To(HaveOccurred())
	f.Expect(output).To(Equal(shard.ErrLeaseLost.Error()))
}

// TestPausedAndReplacedShardStops resumes a process after another one has joined with its name.
func TestPausedAndReplacedShardStops(t *testing.T) {
	f := setUp(t)
	first := f.start("first", "same")
	f.working(first)
	f.Expect(first.Pause()).To(Succeed())
	second := f.start("second", "same")
	f.working(second)
	f.Expect(first.Resume()).To(Succeed())
	output, err := f.end(first)
	f.Expect(err).To(HaveOccurred())
	f.Expect(output).To(Equal(shard.ErrLeaseLost.Error()))
	f.Expect(second.Running()).To(BeTrue())
	f.Expect(f.lease("same").Annotations).NotTo(BeEmpty())
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		lease shard.Lease
		want  string
	}{
		"good":              {shard.Lease{Ring: "ring", Namespace: "default", Name: "a"}, ""},
		"a shard too long":  {shard.Lease{Ring: "ring", Namespace: "default", Name: strings.Repeat("x", 64)}, "name of the shard"},
		"a ring too long":   {shard.Lease{Ring: strings.Repeat("x", 64), Namespace: "default", Name: "a"}, "name of the ring"},
		"a name with space": {shard.Lease{Ring: "ring", Namespace: "default", Name: "a b"}, "cannot be the name of a shard"},
		"no namespace":      {shard.Lease{Ring: "ring", Name: "a"}, "namespace"},
		"half a second":     {shard.Lease{Ring: "ring", Namespace: "default", Name: "a", Duration: 15500 * time.Millisecond}, "number of seconds"},
		"no time to end":    {shard.Lease{Ring: "ring", Namespace: "default", Name: "a", Duration: 10 * time.Second}, "longer than the renew deadline"},
		"retries too late":  {shard.Lease{Ring: "ring", Namespace: "default", Name: "a", RetryPeriod: 9 * time.Second}, "retry period"},
	} {
		err := test.lease.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := (&shard.Lease{}).Run(t.Context(), nil); err == nil || errors.Is(err, shard.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
}
