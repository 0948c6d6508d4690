package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// natsServer is a NATS server with its data and ports.
type natsServer struct {
	Member
	options *Options
	dir     string
	ports   [3]int // for clients, for other servers, for health checks
	process *process
	// orderMu is held while the process is started or stopped.
	orderMu sync.Mutex
}

// process is a started process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (s *natsServer) healthURL() string { return "http://" + address(s.ports[2]) + "/healthz" }

// stop shuts the process down gracefully.
func (s *natsServer) stop() {
	if s.process == nil || s.process.ended() {
		return
	}
	const timeout = 20 * time.Second
	_ = s.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.process.done:
	case <-time.After(timeout):
		_ = s.process.cmd.Process.Kill()
		<-s.process.done
	}
}

// start starts the process and waits until clients can connect.
func (s *natsServer) start(routes []string) (*process, error) {
	config, log := filepath.Join(s.dir, "nats.conf"), filepath.Join(s.dir, "log")
	if err := os.WriteFile(config, []byte(s.configuration(routes)), 0o600); err != nil {
		return nil, err
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()                                                                        // the process has its own
	p := &process{exec.Command(executable, "node", "--config", config), make(chan struct{})} //nolint:gosec // it is this program
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	const interval = 10 * time.Millisecond
	for {
		select {
		case <-p.done:
			return p, errors.New(lastLine(log))
		case <-time.After(interval):
		}
		if connection, err := net.Dial("tcp", address(s.ports[0])); err == nil {
			return p, connection.Close()
		}
	}
}

func lastLine(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[len(lines)-1]
}

// configuration returns the configuration file. Servers with different protocols refuse each other.
func (s *natsServer) configuration(routes []string) string {
	password := "protocol-" + s.Protocol
	var urls []string
	for _, route := range routes {
		urls = append(urls, fmt.Sprintf("nats://route:%s@%s", password, route))
	}
	return fmt.Sprintf(`server_name: %q
listen: %q
http: %q
server_tags: ["region:%s"]
jetstream { store_dir: %q, unique_tag: "region:", max_file: 1GB, max_mem: 64MB }
cluster {
  name: %q
  listen: %q
  authorization { user: route, password: %q }
  routes: [%s]
}
accounts {
  APP { jetstream: enabled, users: [{user: app, password: app}] }
  SYS { users: [{user: sys, password: sys}] }
}
system_account: SYS
%s
`, s.Name, address(s.ports[0]), address(s.ports[2]), s.options.Region, s.dir, s.options.Cluster, s.Route, password,
		strings.Join(urls, ", "), s.Config)
}
