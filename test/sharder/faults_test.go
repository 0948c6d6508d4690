package sharder_test

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// oneTimeout is the limit for a request that waits for one webhook: its timeout of 1 s, with a margin for a busy
// machine that is below two more timeouts, and far below the 34 s after which API servers cancel a request.
const oneTimeout = 3 * time.Second

// The faults of a webhook.
const (
	slowAnswers int32 = iota
	internalErrors
	wrongCertificates
	noAnswers
)

// faultyWebhook is a webhook with one fault at a time.
type faultyWebhook struct {
	net.Listener
	fault       atomic.Int32
	right, fake tls.Certificate
}

func newFaultyWebhook(t *testing.T, g *WithT) (webhook *faultyWebhook, bundle []byte) {
	t.Helper()
	issue := func() (bundle []byte, certificate tls.Certificate) {
		ca, err := pki.New("test", time.Hour, time.Now())
		g.Expect(err).NotTo(HaveOccurred())
		authority, err := pki.Load(ca, time.Now())
		g.Expect(err).NotTo(HaveOccurred())
		pair, err := authority.IssueFor(pki.Identity{User: "webhook", Hosts: []string{"127.0.0.1"}}, time.Hour)
		g.Expect(err).NotTo(HaveOccurred())
		certificate, err = tls.X509KeyPair(pair.Certificate, pair.Key)
		g.Expect(err).NotTo(HaveOccurred())
		return ca.Certificate, certificate
	}
	w := &faultyWebhook{}
	bundle, w.right = issue()
	_, w.fake = issue()
	var err error
	w.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false) // so that each request gets the current fault
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(w)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return w, bundle
}

// Accept returns the next connection to serve.
func (w *faultyWebhook) Accept() (net.Conn, error) {
	for {
		conn, err := w.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if w.fault.Load() == noAnswers {
			go func() { _, _ = io.Copy(io.Discard, conn) }() // until the API server closes it
			continue
		}
		return tls.Server(conn, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if w.fault.Load() == wrongCertificates {
				return &w.fake, nil
			}
			return &w.right, nil
		}}), nil
	}
}

func (w *faultyWebhook) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if w.fault.Load() == internalErrors {
		http.Error(writer, "fault", http.StatusInternalServerError)
		return
	}
	select {
	case <-request.Context().Done():
	case <-time.After(time.Minute):
	}
}

// TestFaultyWebhook shows that no fault of the webhook fails a request or delays it for more than one timeout.
func TestFaultyWebhook(t *testing.T) {
	f := setUp(t)
	webhook, bundle := newFaultyWebhook(t, f.WithT)
	f.run(rig.SharderOptions{
		Name: "sharder-0", Roles: []string{ringRole},
		Config: fmt.Sprintf("webhook: {config: {clientConfig: {url: 'https://%s', caBundle: %s}}}", webhook.Addr(), base64.StdEncoding.EncodeToString(bundle)),
	})
	f.condition(shardingv1alpha1.ConditionReady, shardingv1alpha1.ReasonNoShards)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, GenerateName: "created-"}}
	create := func() { f.Expect(f.Client.Create(t.Context(), object.DeepCopy())).To(Succeed()) }
	webhook.fault.Store(internalErrors)
	f.Eventually(func() int { return f.during(create).Called }).Should(Equal(1), "the webhook is called")
	for name, fault := range map[string]int32{
		"slow": slowAnswers, "answers 500": internalErrors, "wrong certificate": wrongCertificates, "accepts and never answers": noAnswers,
	} {
		webhook.fault.Store(fault)
		for range 3 {
			var took time.Duration
			f.Expect(f.during(func() { took = timed(create) })).To(Equal(calls{Called: 1, FailedOpen: 1}), name)
			f.Expect(took).To(BeNumerically("<", oneTimeout), name)
		}
	}
}
