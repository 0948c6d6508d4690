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

const validity = 90 * 24 * time.Hour

// newRotator returns the Rotator of a replica. All replicas of a test share the Secret and the clock.
func newRotator(r *rig.Rig, clock *clocktesting.FakeClock, bundles *int) *certificates.Rotator {
	return &certificates.Rotator{
		Client: r.Client, Secret: types.NamespacedName{Namespace: r.Namespace, Name: "cert"},
		Hosts: []string{"sharder.sharding-system.svc"}, Validity: validity, CheckInterval: time.Minute,
		Clock: clock, Changed: func() { *bundles++ },
	}
}

// verify checks what the rotator serves as an API server does that trusts the bundle.
func verify(g *WithT, rotator *certificates.Rotator, bundle []byte, now time.Time) {
	served, err := rotator.GetCertificate(&tls.ClientHelloInfo{})
	g.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(bundle)).To(BeTrue())
	_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: "sharder.sharding-system.svc", Roots: roots, CurrentTime: now})
	g.Expect(err).NotTo(HaveOccurred())
}

// TestCertificateIsAlwaysTrusted renews certificates for years in steps of days. At every step, an API server with
// the bundle of the previous step trusts the certificates of both replicas.
func TestCertificateIsAlwaysTrusted(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	bundles, serials := 0, map[string]bool{}
	one, two := newRotator(r, clock, &bundles), newRotator(r, clock, new(int))
	g.Expect(one.Ready(nil)).NotTo(Succeed(), "not before there is a certificate")
	g.Expect(one.Sync(t.Context())).To(Succeed())
	g.Expect(one.Ready(nil)).To(Succeed())
	trusted := one.Bundle()
	const step = 10 * 24 * time.Hour
	for range 100 {
		clock.Step(step)
		g.Expect(one.Sync(t.Context())).To(Succeed())
		g.Expect(two.Sync(t.Context())).To(Succeed())
		verify(g, one, trusted, clock.Now())
		verify(g, two, trusted, clock.Now())
		g.Expect(two.Bundle()).To(Equal(one.Bundle()))
		trusted = one.Bundle()
		served, err := one.GetCertificate(nil)
		g.Expect(err).NotTo(HaveOccurred())
		serials[served.Leaf.SerialNumber.String()] = true
	}
	t.Logf("%d certificates and %d bundles in %d days", len(serials), bundles, 100*10)
	g.Expect(len(serials)).To(BeNumerically(">", 10), "it was renewed")
	g.Expect(bundles).To(BeNumerically(">", 2), "so was its authority")
}

func TestValidCertificateIsNotRenewed(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	rotator := newRotator(r, clock, new(int))
	secret := &corev1.Secret{}
	g.Expect(rotator.Sync(t.Context())).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), rotator.Secret, secret)).To(Succeed())
	before := secret.ResourceVersion
	clock.Step(validity / 2)
	g.Expect(rotator.Sync(t.Context())).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), rotator.Secret, secret)).To(Succeed())
	g.Expect(secret.ResourceVersion).To(Equal(before))
}

// TestExpiredCertificateIsNotReady has a replica that cannot renew its certificate.
func TestExpiredCertificateIsNotReady(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	rotator := newRotator(rig.Shared(t), clock, new(int))
	g.Expect(rotator.ExpiresAt().IsZero()).To(BeTrue())
	g.Expect(rotator.Sync(t.Context())).To(Succeed())
	clock.SetTime(rotator.ExpiresAt().Add(-time.Second))
	g.Expect(rotator.Ready(nil)).To(Succeed())
	clock.SetTime(rotator.ExpiresAt())
	g.Expect(rotator.Ready(nil)).To(MatchError(ContainSubstring("expired at")))
	g.Expect(rotator.Sync(t.Context())).To(Succeed())
	g.Expect(rotator.Ready(nil)).To(Succeed(), "it was renewed")
}

func TestInvalidSecretIsRepaired(t *testing.T) {
	for name, damage := range map[string]func(*corev1.Secret){
		"emptied":              func(s *corev1.Secret) { s.Data = map[string][]byte{"tls.crt": {}, "tls.key": {}} },
		"invalid certificate":  func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("garbage") },
		"invalid authority":    func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("garbage") },
		"authority's key gone": func(s *corev1.Secret) { delete(s.Data, "ca.key") },
		"bundle gone":          func(s *corev1.Secret) { delete(s.Data, "bundle.crt") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := rig.Shared(t)
			clock := clocktesting.NewFakeClock(time.Now())
			rotator := newRotator(r, clock, new(int))
			g.Expect(rotator.Sync(t.Context())).To(Succeed())
			secret := &corev1.Secret{}
			g.Expect(r.Client.Get(t.Context(), rotator.Secret, secret)).To(Succeed())
			damage(secret)
			g.Expect(r.Client.Update(t.Context(), secret)).To(Succeed())
			g.Expect(rotator.Sync(t.Context())).To(Succeed())
			verify(g, rotator, rotator.Bundle(), clock.Now())
		})
	}
}

// TestReplicasAgree starts two replicas at the same time without a Secret.
func TestReplicasAgree(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	clock := clocktesting.NewFakeClock(time.Now())
	one, two := newRotator(r, clock, new(int)), newRotator(r, clock, new(int))
	for _, rotator := range []*certificates.Rotator{one, two} {
		go func() { _ = rotator.Start(t.Context()) }()
	}
	g.Eventually(func() []byte { clock.Step(time.Second); return one.Bundle() }, "30s").ShouldNot(BeEmpty())
	g.Eventually(func() []byte { clock.Step(time.Second); return two.Bundle() }, "30s").Should(Equal(one.Bundle()))
}
