//go:build long

package robustness_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// TestOnlyRenewalsAreWrittenAtRest records every write to the cluster for six minutes with at least two resyncs. None may
// be missing, because etcd numbers them.
func TestOnlyRenewalsAreWrittenAtRest(t *testing.T) {
	t.Parallel()
	const rest, syncPeriod, resyncs = 6 * time.Minute, 2 * time.Minute, 2
	// Disable writes of the API server itself: compactions and the endpoints of its peers.
	own := options
	own.APIServerArgs = []string{"--etcd-compaction-interval=0", "--feature-gates=UnknownVersionInteroperabilityProxy=false"}
	r := rig.Private(t, own)
	sharders := startSharders(t, r, func(s *sharders) {
		s.config = fmt.Sprintf("controller: {sharder: {syncPeriod: %s}}", syncPeriod)
	})
	s := newScenario(t, r)
	s.watchEverything()
	s.join("a")
	s.join("b")
	c := s.join("c", slow)
	s.user.start()
	waitForWork()
	s.kill(c)
	s.user.stopWork()
	s.waitUntilIdle(afterDeath(), []string{"a", "b"})
	s.Eventually(func() string { return s.holder("c") }).Should(BeEmpty(), "the sharder deletes the Lease of the dead shard")
	s.user.close()
	token := s.metricsToken()
	s.waitUntilIdle(afterDeath(), []string{"a", "b"})

	before := sharders.resyncs(token, s.ringName)
	first := s.mark("rest-begins")
	quiet := oracle.Window{From: time.Now()}
	time.Sleep(rest)
	quiet.To = time.Now()
	last := s.mark("rest-ends")
	s.Expect(sharders.resyncs(token, s.ringName) - before).To(BeNumerically(">=", resyncs))

	options := s.oracleOptions(afterDeath())
	options.Quiet, options.Counted = quiet, oracle.Versions{After: first, Before: last}
	report := s.check(options)
	s.Expect(report.Figures.WrittenAtRest).To(BeNumerically(">", 0), "Leases are renewed")
}

// mark writes an object that no ring selects, and returns its version when it is recorded.
func (s *scenario) mark(name string) uint64 {
	s.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	s.Expect(s.Client.Create(s.t.Context(), object)).To(Succeed())
	version := history.Version(object)
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.recordedEvents(), func(e history.Event) bool { return e.Write != nil && e.Write.Version == version })
	}).Should(BeTrue())
	return version
}

// watchEverything records the writes of all objects of the cluster.
func (s *scenario) watchEverything() {
	s.t.Helper()
	access, err := dynamic.NewForConfig(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	lists, err := s.Clientset.Discovery().ServerPreferredResources()
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	watcher := &history.Watcher{Client: access, Recorder: s.recorder, Ring: s.ringName, Everything: true, Content: number}
	watchable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists)
	resources, err := discovery.GroupVersionResources(watchable)
	s.Expect(err).NotTo(HaveOccurred())
	for resource := range resources {
		s.Expect(watcher.Watch(ctx, resource, &done)).To(Succeed(), resource.String())
	}
}

// metricsToken returns a token with permission to read the sharder's metrics.
func (s *scenario) metricsToken() string {
	s.t.Helper()
	const account = "metrics-reader"
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: account}
	s.Expect(s.Client.Create(s.t.Context(), &corev1.ServiceAccount{ObjectMeta: meta})).To(Succeed())
	s.Expect(s.Client.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + ":" + account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sharding:metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: account}},
	})).To(Succeed())
	config, err := s.TokenRESTConfig(s.t.Context(), s.Namespace, account)
	s.Expect(err).NotTo(HaveOccurred())
	return config.BearerToken
}

// resyncs returns the number of completed resyncs of a ring.
func (s *sharders) resyncs(token, ring string) int {
	s.t.Helper()
	count := regexp.MustCompile(`(?m)^controller_sharding_sync_duration_seconds_count\{controllerring="` + ring + `"\} (\d+)$`)
	total := 0
	for _, replica := range s.replicas {
		if found := count.FindStringSubmatch(s.metrics(replica, token)); found != nil {
			n, err := strconv.Atoi(found[1])
			s.Expect(err).NotTo(HaveOccurred())
			total += n
		}
	}
	return total
}

// metrics returns the metrics of a replica.
func (s *sharders) metrics(r *replica, token string) string {
	s.t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // a replica on this machine
		DisableKeepAlives: true,
	}}
	url := fmt.Sprintf("https://127.0.0.1:%d/metrics", r.Metrics)
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, http.NoBody)
	s.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	s.Expect(response.StatusCode).To(Equal(http.StatusOK))
	content, err := io.ReadAll(response.Body)
	s.Expect(err).NotTo(HaveOccurred())
	return string(content)
}
