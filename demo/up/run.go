package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/screen"
)

// runExample starts the example, and shows it until ctx ends or the user quits.
func (r *run) runExample(ctx context.Context) error {
	if err := r.writeEnv(""); err != nil {
		return err
	}
	s := state{PID: os.Getpid(), Kubeconfig: r.plane.Kubeconfig}
	if r.Example == ExampleNone {
		r.report("ready")
		if err := errors.Join(r.folder.writeState(s), r.printBareInstructions()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	if err := r.startExample(ctx); err != nil {
		return err
	}
	if etcdcluster, ok := r.example.(etcdclusterExample); ok {
		if err := r.writeEnv(etcdcluster.Endpoint()); err != nil {
			return err
		}
	}
	r.report("ready: " + r.example.summary())
	listener, err := control.Listen(r.folder.path)
	if err != nil {
		return err
	}
	defer listener.Close()
	go control.Serve(ctx, listener, r.example)
	s.Socket = listener.Addr().String()
	if err := errors.Join(r.folder.writeState(s), r.printInstructions()); err != nil {
		return err
	}
	return r.display(ctx)
}

// display shows the live view on a terminal, and prints lines elsewhere.
func (r *run) display(ctx context.Context) error {
	out, isFile := r.Out.(*os.File)
	if r.Plain || !isFile || r.In == nil || !screen.IsInteractive(r.In, out) {
		r.example.log(ctx, r.Out)
		return nil
	}
	terminal, err := screen.Open(r.In, out)
	if err != nil {
		r.report("the live view is not available: " + err.Error())
		r.example.log(ctx, r.Out)
		return nil
	}
	defer terminal.Close() // also after a panic
	r.example.live(ctx, terminal)
	if ctx.Err() == nil {
		terminal.Close()
		return r.interrupt(ctx)
	}
	return nil
}

// interrupt sends SIGINT to this process, because the screen reads Ctrl-C as a key. The next Ctrl-C
// is then the second one, which stops everything immediately.
func (*run) interrupt(ctx context.Context) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	<-ctx.Done()
	return nil
}

// redirectLogs writes the logs of libraries to a file, so that they do not disturb the terminal.
func redirectLogs(dir string) (restore func(), err error) {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("creating a folder for logs: %w", err)
	}
	path := filepath.Join(logs, "ringmaster.log")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an old log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(file)
	logf.SetLogger(klog.Background())
	return func() {
		klog.Flush()
		klog.LogToStderr(true)
		file.Close()
	}, nil
}
