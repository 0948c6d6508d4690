package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/screen"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/webhosting"
)

// show starts what is to be shown, and shows it until ctx ends or the person quits.
func (r *run) show(ctx context.Context) error {
	if err := r.writeEnv(""); err != nil {
		return err
	}
	s := state{PID: os.Getpid(), Kubeconfig: r.plane.Kubeconfig}
	if r.Example == ExampleNone {
		r.report("ready")
		if err := errors.Join(r.folder.announce(s), r.greetBare()); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if meeting, is := r.example.(clusters); is {
		if err := r.writeEnv(meeting.Endpoint()); err != nil {
			return err
		}
	}
	r.report("ready: " + r.example.summary())
	listener, err := control.Listen(r.folder.path)
	if err != nil {
		return err
	}
	defer listener.Close()
	go control.Serve(ctx, listener, r.example.Do)
	s.Socket = listener.Addr().String()
	if err := errors.Join(r.folder.announce(s), r.greet()); err != nil {
		return err
	}
	return r.watch(ctx)
}

// watch shows what happens: as a picture on a terminal, as lines elsewhere.
func (r *run) watch(ctx context.Context) error {
	out, isFile := r.Out.(*os.File)
	if r.Plain || !isFile || r.In == nil || !screen.Fit(r.In, out) {
		r.example.log(ctx, r.Out)
		return nil
	}
	taken, err := screen.Open(r.In, out)
	if err != nil {
		r.report("there is no live view: " + err.Error())
		r.example.log(ctx, r.Out)
		return nil
	}
	defer taken.Close() // also when something panics
	r.example.live(ctx, taken)
	if ctx.Err() == nil {
		taken.Close()
		return r.interrupt(ctx)
	}
	return nil
}

// interrupt ends everything as a Ctrl-C would, which pressed on the screen is only a key: so that the next one
// is the second.
func (*run) interrupt(ctx context.Context) error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	if err := self.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("ending: %w", err)
	}
	<-ctx.Done()
	return nil
}

// redirectLogs makes what libraries log go to a file, because a person looks at the terminal.
func redirectLogs(dir string) (restore func(), err error) {
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder for logs: %w", err)
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

// hints are what a person may want to type.
func (r *run) hints(pages string) view.Hints {
	return view.Hints{
		Pages: pages,
		Setup: r.setup(),
		Try:   tries(r.Mode, webhosting.InstanceName(max(0, min(1, r.Shards-1))), r.option()),
	}
}

// tries are things to try, with one of the instances.
func tries(mode, instance, option string) []view.Try {
	theme := view.Try{Command: `kubectl patch theme exciting --type=merge -p '{"spec":{"color":"orange"}}'`, Shows: "look at a website before and after"}
	more := view.Try{Command: "ringmaster demo websites 500" + option, Shows: "more to do"}
	if mode == view.ModeLead {
		return []view.Try{
			{Command: "kubectl get websites -A", Shows: "all of them are looked after by one instance"},
			theme,
			{Command: "ringmaster demo kill " + instance + option, Shows: "if it leads, the next one does when its Lease has run out"},
			{Command: "ringmaster demo stop " + instance + option, Shows: "if it leads, the next one does at once"},
			{Command: "ringmaster demo scale 5" + option, Shows: "more that wait"},
			more,
		}
	}
	return []view.Try{
		{Command: "kubectl get websites -A -L " + shardingv1alpha1.LabelShard(webhosting.Ring), Shows: "whose each website is"},
		theme,
		{Command: "ringmaster demo kill " + instance + option, Shows: "its websites go to the others when its Lease has run out"},
		{Command: "ringmaster demo scale 5" + option, Shows: "some websites go to the new ones, the others stay where they are"},
		{Command: "ringmaster demo pause " + instance + option, Shows: "as kill, but 'resume' wakes it up: it notices, and ends"},
		more,
	}
}

// fate is what becomes of the data.
func (r *run) fate() string {
	if r.folder.temporary {
		return "thrown away at the end; keep it with --data-dir"
	}
	return "kept for the next time"
}

// greet tells the user where everything is and what to try.
func (r *run) greet() error {
	hints := r.example.hints()
	var try strings.Builder
	for _, hint := range hints.Try {
		fmt.Fprintf(&try, "  # %s\n  %s\n", hint.Shows, hint.Command)
	}
	_, err := fmt.Fprintf(r.Out, `
Kubernetes %s is up at %s.
Its data is in %s: %s.
%s

In another terminal:

  %s
%s
Ctrl-C stops everything.
`, r.kubernetes, r.plane.URL(), r.folder.path, r.fate(), r.example.about(), hints.Setup, try.String())
	return err
}

// greetBare is greet without an example.
func (r *run) greetBare() error {
	_, err := fmt.Fprintf(r.Out, `
Kubernetes %s is up at %s.
Its data is in %s: %s.
There is no node, so Pods stay Pending.

In another terminal:

  %s
  kubectl version
  kubectl create deployment hello --image=hello
  kubectl get deployments,replicasets -A

Ctrl-C stops everything.
`, r.kubernetes, r.plane.URL(), r.folder.path, r.fate(), r.setup())
	return err
}

// quote makes a path safe to paste into a shell.
func quote(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=@%:", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
