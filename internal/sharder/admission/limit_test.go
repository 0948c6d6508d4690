package admission

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestMemoryIsBounded serves many requests at the same time.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, size = 100, 30
		var l limiter
		var now, peak, served atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if !l.acquire(t.Context(), size, total) {
					t.Error("no memory was reserved")
					return
				}
				used := now.Add(size)
				for highest := peak.Load(); used > highest && !peak.CompareAndSwap(highest, used); highest = peak.Load() { // until it is stored
				}
				time.Sleep(time.Second)
				now.Add(-size)
				l.release(size)
				served.Add(1)
			})
		}
		group.Wait()
		if served.Load() != 50 || peak.Load() > total {
			t.Errorf("%d requests were served with at most %d, want 50 with at most %d", served.Load(), peak.Load(), total)
		}
	})
}

func TestRequestDoesNotWaitForMemoryForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limiter
		l.acquire(t.Context(), 1000, 100) // served alone
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if l.acquire(ctx, 1, 100) {
			t.Error("a second request was served beside one that takes all memory")
		}
		l.release(1000)
		if !l.acquire(t.Context(), 1, 100) {
			t.Error("memory was not freed")
		}
	})
}

// neverRead is the body of a request that must be refused without reading it.
type neverRead struct{ t *testing.T }

func (n neverRead) Read([]byte) (int, error) {
	n.t.Error("the body was read")
	return 0, http.ErrBodyReadAfterClose
}

func TestInvalidRequestsAreNotRead(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"another method":       func(r *http.Request) { r.Method = http.MethodGet },
		"another content type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"no content type":      func(r *http.Request) { r.Header.Del("Content-Type") },
		"too large":            func(r *http.Request) { r.ContentLength = maxReviewSize + 1 },
		"a path with slashes":  func(r *http.Request) { r.URL.Path += "/below" },
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodPost, "/webhooks/sharder/controllerring/ring", neverRead{t})
			request.Header.Set("Content-Type", "application/json")
			request.ContentLength = 100
			change(request)
			recorder := httptest.NewRecorder()
			(&Handler{}).ServeHTTP(recorder, request)
			if recorder.Code < http.StatusBadRequest || recorder.Code >= http.StatusInternalServerError || strings.Contains(recorder.Body.String(), "allowed") {
				t.Errorf("the response is %d: %s", recorder.Code, recorder.Body)
			}
		})
	}
}

// TestStalledRequestsFreeTheirMemory declares large bodies and does not send them.
func TestStalledRequestsFreeTheirMemory(t *testing.T) {
	server := httptest.NewServer(&Handler{})
	t.Cleanup(server.Close)
	const stalled = DefaultMemory / (maxReviewSize * memoryFactor)
	for range stalled {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		_, err = fmt.Fprintf(connection, "POST %sring HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{",
			shardingv1alpha1.WebhookPathPrefix, maxReviewSize)
		if err != nil {
			t.Fatal(err)
		}
	}
	for status, began := 0, time.Now(); status != http.StatusBadRequest; { // the status for a body that is not a review
		if time.Since(began) > time.Minute {
			t.Fatalf("the status is still %d", status)
		}
		response, err := http.Post(server.URL+shardingv1alpha1.WebhookPathPrefix+"ring", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		status = response.StatusCode
		_ = response.Body.Close()
	}
}

// TestParsedObjectIsBounded has metadata that takes many times the memory of its text.
func TestParsedObjectIsBounded(t *testing.T) {
	references := "[{}" + strings.Repeat(",{}", maxReferencesSize/3) + "]"
	if _, err := parseObject([]byte(`{"metadata":{"ownerReferences":` + references + `}}`)); err == nil {
		t.Error("too many owner references were parsed")
	}
	object, err := parseObject([]byte(`{"metadata":{"name":"a","managedFields":` + references + `,"ownerReferences":[{"kind":"Website","controller":true}]}}`))
	if err != nil || object.Name != "a" || len(object.ManagedFields) > 0 || len(object.OwnerReferences) != 1 {
		t.Errorf("parsed %+v: %v", object, err)
	}
}
