package moves_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// forbiddingTransport is an API server that does not let the sharder write Secrets.
type forbiddingTransport struct{ http.RoundTripper }

func (r forbiddingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/secrets/") {
		return r.RoundTripper.RoundTrip(request)
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Request: request, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewBufferString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)),
	}, nil
}

// TestObjectsThatCannotBeWrittenCountAsUnassigned and not as objects of the shard that they
// should be assigned to.
func TestObjectsThatCannotBeWrittenCountAsUnassigned(t *testing.T) {
	f := setUp(t, "a", "b")
	f.create(t, 5)
	config := rest.CopyConfig(f.Config)
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return forbiddingTransport{next} }
	client, err := metadata.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	f.run(t, func(options *moves.Options) { options.Metadata = client })
	f.Eventually(func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.counts.Unassigned
	}).Should(Equal(5))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Expect(f.writes[assignment.Assign]).To(BeNumerically(">=", 5), "the others were assigned")
}
