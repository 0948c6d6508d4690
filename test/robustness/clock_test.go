package robustness_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
)

// withClockOff simulates a wrong clock of a process. Shards exchange times only in Leases, so the wrapper shifts the
// times in the Leases that the process writes, and shifts them back in those that it reads. The rate of the clock
// does not change.
func withClockSkew(off time.Duration) transport.WrapperFunc {
	return func(inner http.RoundTripper) http.RoundTripper { return &skewedTransport{inner, off} }
}

type skewedTransport struct {
	http.RoundTripper
	off time.Duration
}

func (c *skewedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.Path, "/leases") || request.URL.Query().Get("watch") != "" {
		return c.RoundTripper.RoundTrip(request)
	}
	if request.Body != nil {
		content, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		if err := request.Body.Close(); err != nil {
			return nil, err
		}
		content, err = moveTimes(content, c.off)
		if err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.Body, request.ContentLength, request.GetBody = io.NopCloser(bytes.NewReader(content)), int64(len(content)), nil
	}
	response, err := c.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	if content, err = moveTimes(content, -c.off); err != nil {
		return nil, err
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	return response, nil
}

// moveTimes shifts the times of a Lease, or of all Leases in a list.
func moveTimes(content []byte, offset time.Duration) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, fmt.Errorf("parsing a lease: %w", err)
	}
	items, _ := object["items"].([]any)
	for _, item := range append(items, object) {
		lease, _ := item.(map[string]any)
		spec, _ := lease["spec"].(map[string]any)
		for _, field := range []string{"acquireTime", "renewTime"} {
			text, ok := spec[field].(string)
			if !ok {
				continue
			}
			at, err := time.Parse(metav1.RFC3339Micro, text)
			if err != nil {
				return nil, err
			}
			spec[field] = at.Add(offset).Format(metav1.RFC3339Micro)
		}
	}
	return json.Marshal(object)
}

func TestMoveTimes(t *testing.T) {
	got, err := moveTimes([]byte(`{"kind":"Lease","spec":{"holderIdentity":"a","renewTime":"2026-01-01T00:00:00.000000Z"}}`), -time.Minute)
	if want := `{"kind":"Lease","spec":{"holderIdentity":"a","renewTime":"2025-12-31T23:59:00.000000Z"}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
