package certificates_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/sharder/certificates"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

const life = 90 * 24 * time.Hour

// newKeeper returns a replica's keeper. All of one test share the Secret and the clock.
func newKeeper(r *rig.Rig, clock *clocktesting.FakeClock, announced *int) *certificates.Keeper {
	return &certificates.Keeper{
		Client: r.Client, Secret: types.NamespacedName{Namespace: r.Namespace, Name: "cert"},
		Hosts: []string{"sharder.sharding-system.svc"}, Life: life, Period: time.Minute,
		Clock: clock, Changed: func() { *announced++ },
	}
}

// verify checks what the keeper serves as an API server does that trusts the bundle.
func verify(g *WithT, k *certificates.Keeper, bundle []byte, now time.Time) {
	served, err := k.GetCertificate(&tls.ClientHelloInfo{})
	g.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(bundle)).To(BeTrue())
	_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: "sharder.sharding-system.svc", Roots: roots, CurrentTime: now})
	g.Expect(err).NotTo(HaveOccurred())
}

// TestAlwaysTrusted goes through years of renewals in steps of days. At every step an API server
// that was told of the bundle one step before trusts what is served, by either replica.
func TestAlwaysTrusted(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	announced, serials := 0, map[string]bool{}
	one, two := newKeeper(r, clock, &announced), newKeeper(r, clock, new(int))
	g.Expect(one.Ready(nil)).NotTo(Succeed(), "not before there is a certificate")
	g.Expect(one.Sync(t.Context())).To(Succeed())
	g.Expect(one.Ready(nil)).To(Succeed())
	told := one.Bundle()
	const step = 10 * 24 * time.Hour
	for range 100 {
		clock.Step(step)
		g.Expect(one.Sync(t.Context())).To(Succeed())
		g.Expect(two.Sync(t.Context())).To(Succeed())
		verify(g, one, told, clock.Now())
		verify(g, two, told, clock.Now())
		g.Expect(two.Bundle()).To(Equal(one.Bundle()))
		told = one.Bundle()
		served, err := one.GetCertificate(nil)
		g.Expect(err).NotTo(HaveOccurred())
		serials[served.Leaf.SerialNumber.String()] = true
	}
	t.Logf("%d certificates and %d bundles in %d days", len(serials), announced, 100*10)
	g.Expect(len(serials)).To(BeNumerically(">", 10), "it was renewed")
	g.Expect(announced).To(BeNumerically(">", 2), "so was its authority")
}

func TestNothingIsRenewedWithoutNeed(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	k := newKeeper(r, clock, new(int))
	secret := &corev1.Secret{}
	g.Expect(k.Sync(t.Context())).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), k.Secret, secret)).To(Succeed())
	before := secret.ResourceVersion
	clock.Step(life / 2)
	g.Expect(k.Sync(t.Context())).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), k.Secret, secret)).To(Succeed())
	g.Expect(secret.ResourceVersion).To(Equal(before))
}

func TestDamageIsRepaired(t *testing.T) {
	for name, damage := range map[string]func(*corev1.Secret){
		"emptied":              func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": {}, "tls.key": {}} },
		"certificate garbled":  func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("garbage") },
		"authority garbled":    func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("garbage") },
		"authority's key gone": func(s *corev1.Secret) { delete(s.Data, "ca.key") },
		"bundle gone":          func(s *corev1.Secret) { delete(s.Data, "bundle.crt") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := rig.Shared(t)
			clock := clocktesting.NewFakeClock(time.Now())
			k := newKeeper(r, clock, new(int))
			g.Expect(k.Sync(t.Context())).To(Succeed())
			secret := &corev1.Secret{}
			g.Expect(r.Client.Get(t.Context(), k.Secret, secret)).To(Succeed())
			damage(secret)
			g.Expect(r.Client.Update(t.Context(), secret)).To(Succeed())
			g.Expect(k.Sync(t.Context())).To(Succeed())
			verify(g, k, k.Bundle(), clock.Now())
		})
	}
}

// TestReplicasAgree lets two replicas start at the same moment on nothing.
func TestReplicasAgree(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	one, two := newKeeper(r, clock, new(int)), newKeeper(r, clock, new(int))
	for _, k := range []*certificates.Keeper{one, two} {
		go func() { _ = k.Start(t.Context()) }()
	}
	g.Eventually(func() []byte { clock.Step(time.Second); return one.Bundle() }, "30s").ShouldNot(BeEmpty())
	g.Eventually(func() []byte { clock.Step(time.Second); return two.Bundle() }, "30s").Should(Equal(one.Bundle()))
}
