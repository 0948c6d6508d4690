package main

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// apiServer stands in for the real one, which the end-to-end tests use. It returns its address and
// a folder like the one that a kubelet gives to a pod.
func apiServer(t *testing.T, answer http.HandlerFunc) (url, account string) {
	t.Helper()
	server := httptest.NewTLSServer(answer)
	t.Cleanup(server.Close)
	account = t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, content := range map[string][]byte{"ca.crt": authority, "token": []byte("secret")} {
		if err := os.WriteFile(filepath.Join(account, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return server.URL, account
}

func TestSelfSubjectReview(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		user   string
		error  string
	}{
		"known":           {http.StatusCreated, `{"status":{"userInfo":{"username":"system:serviceaccount:a:b"}}}`, "system:serviceaccount:a:b", ""},
		"refused":         {http.StatusUnauthorized, `nobody`, "", "nobody"},
		"something else?": {http.StatusCreated, `<html>`, "", "reading"},
	} {
		t.Run(name, func(t *testing.T) {
			url, account := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/apis/authentication.k8s.io/v1/selfsubjectreviews" {
					t.Errorf("requests for %s as %q", r.URL.Path, r.Header.Get("Authorization"))
				}
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			})
			user, err := selfSubjectReview(t.Context(), url, account)
			if user != test.user || (err != nil) != (test.error != "") {
				t.Fatalf("%q, %v; want %q, error %q", user, err, test.user, test.error)
			}
			if err != nil && !strings.Contains(err.Error(), test.error) {
				t.Errorf("error %v, want it to say %q", err, test.error)
			}
		})
	}
}

func TestServerIsReadyWhenItKnowsWhoItIs(t *testing.T) {
	s := &server{}
	web := httptest.NewServer(s.handler())
	defer web.Close()
	for _, path := range []string{"/", "/healthz"} {
		if _, err := fetch(web.Client(), web.URL+path); err == nil {
			t.Errorf("%s answers before the API server has", path)
		}
	}
	s.answer.Store(&Answer{Pod: "one", Version: "v1", User: "me"})
	for path, want := range map[string]string{"/": `{"pod":"one","version":"v1","user":"me"}`, "/healthz": "ok"} {
		if got, err := fetch(web.Client(), web.URL+path); err != nil || got != want {
			t.Errorf("%s answers %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestServerServesWhileItLeaves(t *testing.T) {
	s := &server{}
	s.answer.Store(&Answer{})
	web := httptest.NewServer(s.handler())
	defer web.Close()
	left := make(chan error, 1)
	go func() { left <- s.shutDown(web.Config, 200*time.Millisecond) }()
	for !s.draining.Load() {
		time.Sleep(time.Millisecond)
	}
	response, err := http.Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if !response.Close {
		t.Error("a server that leaves keeps the connection")
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
	if response, err := http.Get(web.URL); err == nil {
		response.Body.Close()
		t.Error("a server that has left answers")
	}
}

func TestGet(t *testing.T) {
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests > 5 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer web.Close()
	if err := get(t.Context(), []string{"-n", "3", "-every", "1ms", web.URL}); err != nil || requests != 3 {
		t.Errorf("%d requests, %v; want 3", requests, err)
	}
	if err := get(t.Context(), []string{"-n", "0", "-every", "1ms", web.URL}); err == nil || requests != 6 {
		t.Errorf("%d requests, %v; want it to end with the first failure, the 6th", requests, err)
	}
	requests = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := get(ctx, []string{"-n", "0", web.URL}); err != nil || requests != 0 {
		t.Errorf("after SIGTERM: %d requests, %v; want none", requests, err)
	}
	if err := get(t.Context(), nil); err == nil {
		t.Error("get without a URL does not say what is missing")
	}
}

func TestGetRetriesOnlyUntilFirstResponse(t *testing.T) {
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < 3 || requests == 6 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	long := []string{"-n", "0", "-every", "1ms", "-startup-timeout", "1m", web.URL}
	if err := get(t.Context(), long); err == nil || requests != 6 {
		t.Errorf("%d requests, %v; want failures before the first response to be retried, and the 6th to end it", requests, err)
	}
	requests = 0
	short := []string{"-n", "1", "-every", "1ms", "-startup-timeout", "1ns", web.URL}
	if err := get(t.Context(), short); err == nil || requests != 1 {
		t.Errorf("%d requests, %v; want the startup timeout to end it", requests, err)
	}
}
