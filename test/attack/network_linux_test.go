package attack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/usage"
)

const (
	// memoryLimit is that of the container in config/sharder.
	memoryLimit = 256 << 20
	// floodBody is the size of the bodies of a flood, and flooders the number of clients that send them.
	floodBody, flooders = 8 << 20, 32
	floodDuration       = 15 * time.Second
)

// TestFlood sends large bodies to the webhook as a peer on the network, from many connections at the same time. The memory
// of the sharder stays within the limit of its container, and the requests of users succeed meanwhile, each within the timeout
// of the webhook.
func TestFlood(t *testing.T) {
	f := setUp(t)
	sharder := f.StartSharder(t, rig.SharderOptions{
		Roles: []string{"test/attack/testdata/ring-role.yaml"}, Shipped: true,
		Env: []string{fmt.Sprint("SHARDER_MEMORY_LIMIT=", memoryLimit)},
	})
	f.joins("pod-a", f.configs["pod-a"])
	f.Eventually(func() bool { return f.conditionIs(shardingv1alpha1.ConditionReady) }).Should(BeTrue())
	f.Eventually(func() string { return f.deployment(f.tenant, "").Labels[f.shardLabel()] }).Should(Equal("pod-a"), "the webhook works")

	flooding, stop := context.WithTimeout(t.Context(), floodDuration)
	defer stop()
	var sent, refused atomic.Int64
	var group sync.WaitGroup
	for range flooders {
		group.Go(func() { f.flood(flooding, sharder, &sent, &refused) })
	}
	created, assigned := 0, 0
	for flooding.Err() == nil {
		began := time.Now()
		object := f.deployment(f.tenant, "")
		took := time.Since(began)
		if created++; object.Labels[f.shardLabel()] != "" {
			assigned++
		} else if took > 2*time.Second {
			t.Errorf("a user's request waited for %s", took)
		}
	}
	group.Wait()
	used, err := usage.Of(sharder.PID())
	f.Expect(err).NotTo(HaveOccurred())
	const mebibyte = 1 << 20
	t.Logf("%d requests were sent, %d refused; the sharder took %.0f MiB at most; %d of %d objects were assigned at admission",
		sent.Load(), refused.Load(), used.Peak/mebibyte, assigned, created)
	if sent.Load() < flooders || used.Peak > memoryLimit || 2*assigned < created {
		t.Errorf("the sharder took %.0f MiB, of %d, and assigned %d of %d objects", used.Peak/mebibyte, memoryLimit/mebibyte, assigned, created)
	}
	f.Eventually(func() int { return len(f.ownedBy("pod-a")) }).Should(BeNumerically(">=", created), "a rescue assigns the others")
}

// flood sends bodies that look like admission reviews until ctx ends.
func (f *fixture) flood(ctx context.Context, sharder *rig.Sharder, sent, refused *atomic.Int64) {
	body := append([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":{"metadata":{"labels":{"a":"`),
		bytes.Repeat([]byte("x"), floodBody-1024)...)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			fmt.Sprintf("https://127.0.0.1:%d%s", sharder.Webhook, shardingv1alpha1.WebhookPath(f.ring.Name)), bytes.NewReader(body))
		if err != nil {
			return
		}
		request.Header.Set("Content-Type", "application/json")
		sent.Add(1)
		response, err := transport.RoundTrip(request)
		if err != nil {
			continue
		}
		if response.StatusCode >= http.StatusBadRequest {
			refused.Add(1)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}
