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

// EtcdMember is a member of a test's etcd. It keeps its data and ports over restarts.
type EtcdMember struct {
	// Name is the member's name.
	Name string
	// Endpoint is the host and port for clients, without TLS.
	Endpoint string

	spec    process.Spec
	mu      sync.Mutex
	running *process.Process
}

// Etcd starts an etcd with a number of members, without TLS, for one test, which may break it. It is separate from the
// etcd of control planes.
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
	for _, member := range all { // the first is ready only when others are running
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
	folder, err := thisRun.tempDir(m.Name)
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
	if m.running != nil && m.running.Running() {
		return fmt.Errorf("%s is already running", m.Name)
	}
	var err error
	m.running, err = process.Start(m.spec)
	return err
}

func (m *EtcdMember) current() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// Start starts the member again and waits until it is ready, which needs a quorum.
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
			t.Fatalf("%s ended unexpectedly", m.Name)
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

// Stop stops the member gracefully.
func (m *EtcdMember) Stop(ctx context.Context) error { return m.current().Stop(ctx) }

// Kill kills the member.
func (m *EtcdMember) Kill() error {
	if now := m.current(); now != nil {
		return now.Kill()
	}
	return nil
}

// Pause suspends the member: connections stay open, and requests get no response.
func (m *EtcdMember) Pause() error { return m.current().Pause() }

// Resume resumes a paused member.
func (m *EtcdMember) Resume() error { return m.current().Resume() }
