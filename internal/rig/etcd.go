package rig

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

// EtcdMember is a member of an etcd that is a test's own. Its data and ports stay the same over all starts.
type EtcdMember struct {
	// Name is the member's name.
	Name string
	// Endpoint is where clients reach it, as host and port. It speaks plain HTTP.
	Endpoint string

	spec process.Spec
	mu   sync.Mutex
	now  *process.Process
}

// Etcd starts an etcd of so many members, without TLS, for this test alone, which may break it. It is separate from
// that of any control plane.
func Etcd(t testing.TB, members int) []*EtcdMember {
	t.Helper()
	all := make([]*EtcdMember, members)
	peers := make([]string, members)
	initial := make([]string, members)
	for i := range all {
		all[i] = &EtcdMember{Name: fmt.Sprintf("etcd-%d", i), Endpoint: address(t)}
		peers[i] = "http://" + address(t)
		initial[i] = all[i].Name + "=" + peers[i]
	}
	for i, member := range all {
		member.prepare(t, peers[i], strings.Join(initial, ","))
		if err := member.launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, member := range all { // the first is ready only when it has heard of others
		member.waitReady(t)
	}
	return all
}

// address reserves a port until the test ends.
func address(t testing.TB) string {
	t.Helper()
	const loopback = "127.0.0.1"
	port, err := process.ReservePort(loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	return fmt.Sprintf("%s:%d", loopback, port.Number)
}

func (m *EtcdMember) prepare(t testing.TB, peer, initial string) {
	t.Helper()
	folder, err := session.tempDir(m.Name)
	if err != nil {
		t.Fatal(err)
	}
	m.spec = process.Spec{
		Name: m.Name,
		Path: filepath.Join(Assets(t), controlplane.Etcd),
		Log:  filepath.Join(folder, "log"),
		Args: []string{
			"--name=" + m.Name,
			"--data-dir=" + filepath.Join(folder, "data"),
			"--listen-client-urls=http://" + m.Endpoint,
			"--advertise-client-urls=http://" + m.Endpoint,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + initial,
			"--unsafe-no-fsync", // only a crash of the machine can lose data with it
		},
	}
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			const lines = 40
			t.Logf("--- %s wrote (last %d lines):\n%s\n---", m.Name, lines, process.Tail(m.spec.Log, lines))
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
}

func (m *EtcdMember) launch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now != nil && m.now.Running() {
		return fmt.Errorf("%s is running already", m.Name)
	}
	var err error
	m.now, err = process.Start(m.spec)
	return err
}

func (m *EtcdMember) current() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Start starts the member again and waits until it is ready, for which most members have to be there.
func (m *EtcdMember) Start(t testing.TB) {
	t.Helper()
	if err := m.launch(); err != nil {
		t.Fatal(err)
	}
	m.waitReady(t)
}

func (m *EtcdMember) waitReady(t testing.TB) {
	t.Helper()
	const limit, interval = time.Minute, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !m.ready(ctx) {
		select {
		case <-m.current().Done():
			t.Fatalf("%s has ended by itself", m.Name)
		case <-ctx.Done():
			t.Fatalf("%s is not ready after %s", m.Name, limit)
		case <-ticker.C:
		}
	}
}

func (m *EtcdMember) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Endpoint+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Stop ends the member in good order.
func (m *EtcdMember) Stop(ctx context.Context) error { return m.current().Stop(ctx) }

// Kill ends the member at once.
func (m *EtcdMember) Kill() error {
	if now := m.current(); now != nil {
		return now.Kill()
	}
	return nil
}

// Pause stops the member where it is: connections stay open and nothing answers.
func (m *EtcdMember) Pause() error { return m.current().Pause() }

// Resume lets a paused member go on.
func (m *EtcdMember) Resume() error { return m.current().Resume() }
