package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// etcdPeer is the name of etcd's port for other members.
const etcdPeer = "etcd-peer"

// ports has the reserved port of each component.
type ports struct{ reserved map[string]*process.Port }

// takePorts reserves a port for each component: the previous one if it is free.
func takePorts(dir string, options Options) (*ports, error) {
	file := filepath.Join(dir, "ports.json")
	wanted, err := readPorts(file)
	if err != nil {
		return nil, err
	}
	taken := &ports{reserved: map[string]*process.Port{}}
	for _, name := range []string{Etcd, etcdPeer, APIServer, ControllerManager, Scheduler} {
		address := "127.0.0.1"
		if name == APIServer {
			address = options.BindAddress
		}
		port, err := takePort(address, name, wanted[name], options)
		if err != nil {
			taken.release()
			return nil, fmt.Errorf("finding a port for %s: %w", name, err)
		}
		taken.reserved[name] = port
		wanted[name] = port.Number
	}
	content, err := json.Marshal(wanted)
	if err == nil {
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		taken.release()
		return nil, fmt.Errorf("storing the ports: %w", err)
	}
	return taken, nil
}

func takePort(address, name string, before int, options Options) (*process.Port, error) {
	if name == APIServer && options.Port != 0 {
		port, err := process.Reserve(address, options.Port)
		if err != nil {
			return nil, fmt.Errorf("%w: choose another port, or none for a free one", err)
		}
		return port, nil
	}
	if before != 0 {
		if port, err := process.Reserve(address, before); err == nil {
			return port, nil
		}
	}
	return process.ReservePort(address)
}

func readPorts(file string) (map[string]int, error) {
	numbers := map[string]int{}
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return numbers, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &numbers); err != nil {
		return nil, fmt.Errorf("reading %s (delete it to get new ports): %w", file, err)
	}
	return numbers, nil
}

func (p *ports) number(name string) int { return p.reserved[name].Number }

func (p *ports) release() {
	for _, port := range p.reserved {
		port.Release()
	}
}
