package sharder_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// serial returns the serial number of the certificate on a port, or nil.
func serial(port int) *big.Int {
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber
}

// TestReplacedCertificateFilesAreServed replaces the files while the sharder runs.
func TestReplacedCertificateFilesAreServed(t *testing.T) {
	f := setUp(t)
	ca, err := pki.New("somebody", time.Hour, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	authority, err := pki.Load(ca, time.Now())
	f.Expect(err).NotTo(HaveOccurred())
	folder := rig.TempDir(t)
	write := func() {
		pair, err := authority.IssueFor(pki.Identity{User: "sharder", Hosts: []string{"127.0.0.1"}}, time.Hour)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(pair.Write(filepath.Join(folder, "webhook"))).To(Succeed())
	}
	write()
	r := f.run(rig.SharderOptions{
		Name: "sharder-0", Roles: []string{ringRole},
		Config: fmt.Sprintf(`
webhook:
  config: {clientConfig: {caBundle: %s}}
  server: {certDir: %s, certName: webhook.crt, keyName: webhook.key}
`, base64.StdEncoding.EncodeToString(ca.Certificate), folder),
	})
	f.join("a", 0)
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonReady)
	f.ready(r)
	f.admits()

	before := serial(r.Webhook)
	f.Expect(before).NotTo(BeNil())
	f.Expect(serial(r.Metrics)).To(Equal(before), "metrics are served with the same certificate")
	write()
	f.Eventually(func() *big.Int { return serial(r.Webhook) }).ShouldNot(Or(BeNil(), Equal(before)))
	f.Eventually(func() *big.Int { return serial(r.Metrics) }).Should(Equal(serial(r.Webhook)))
	f.admits()
}
