package command

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// find looks where 'make build' and 'make kubernetes' put the programs, unless it is told where they are.
func (o *options) find(plan []one) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return err
	}
	o.programs = cmp.Or(o.programs, filepath.Dir(self))
	if o.programs, err = filepath.Abs(o.programs); err != nil {
		return err
	}
	for _, p := range plan {
		for _, name := range p.setup.Programs() {
			if info, err := os.Stat(filepath.Join(o.programs, name)); err != nil || info.IsDir() {
				return fmt.Errorf("the program %s is missing in %s: build it with 'make build', or say with --programs where it is", name, o.programs)
			}
		}
	}
	if o.kubeconfig != "" {
		return nil
	}
	if o.assets != "" {
		o.assets, err = controlplane.FindAssetsIn(o.assets)
		return err
	}
	o.assets, err = controlplane.FindAssets(filepath.Join(filepath.Dir(self), "kubernetes"))
	return err
}

// access is to the cluster that was named.
func (o *options) access() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	return config, nil
}

// cluster is where a run takes place: a new control plane, or one that was named.
func (o *options) cluster(ctx context.Context, dir string) (*rest.Config, *controlplane.ControlPlane, error) {
	if o.kubeconfig != "" {
		config, err := o.access()
		return config, nil, err
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Assets: o.assets, Dir: filepath.Join(dir, "kubernetes"), ControllerManager: true, Report: func(string) {},
	})
	if err != nil {
		return nil, nil, err
	}
	config := plane.RESTConfig()
	return config, plane, nil
}

// once makes one run. The files that it needs are thrown away; those of the report are written later.
func (o *options) once(ctx context.Context, next one, which string, after time.Duration) (result *run.Result, err error) {
	dir, err := os.MkdirTemp("", "ringmaster-experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	defer func() {
		switch {
		case err != nil && ctx.Err() == nil:
			err = fmt.Errorf("%w\nAll logs are in %s", err, dir)
		case result != nil && len(result.Doubles) > 0:
			o.say("All logs are in " + dir)
		default:
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	say := o.teller(which, after)
	say(0, next.Duration, "starting")
	defer o.tell("")
	config, plane, err := o.cluster(ctx, dir)
	if err != nil {
		return nil, err
	}
	if plane != nil {
		defer plane.Kill() // its data is thrown away
	}
	return run.Run(ctx, run.Options{
		Scenario: next.Scenario, Seed: o.seed, Projects: o.projects, Interval: o.interval, Dir: dir, Progress: say,
		Samples: filepath.Join(o.out, "samples", next.file()+".csv.gz"),
		Fleet: fleet.Options{
			Setup: next.setup, Instances: next.Instances, Workers: next.Workers, WorkTime: o.workTime, Config: config, Plane: plane, Host: cmp.Or(o.host, "127.0.0.1"),
			Programs: o.programs, Dir: dir, Seed: o.seed,
			Report: func(what string, wrong bool) {
				if wrong {
					say(-1, 0, what)
				}
			},
		},
	})
}

// teller tells how far it is: on a terminal always at the same place, elsewhere now and then. After is how long everything
// after this takes.
func (o *options) teller(of string, after time.Duration) func(done, all time.Duration, what string) {
	const seldom = 30 * time.Second
	var last time.Time
	if terminal.Is(o.errOut) {
		o.say(of) // once, so that there is room for the rest
	}
	return func(done, all time.Duration, what string) {
		if done < 0 { // it is told once
			o.tell("")
			o.say(of + ": " + what)
			return
		}
		done = min(done, all)
		line := fmt.Sprintf("%s of %s, %s left: %s", short(done), short(all), short(all-done+after), what)
		switch now := time.Now(); {
		case terminal.Is(o.errOut):
			o.tell(line)
		case now.Sub(last) >= seldom || done == all:
			last = now
			o.say(of + ": " + line)
		}
	}
}

// short is a time without what does not matter.
func short(of time.Duration) string {
	text := of.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// say tells something for good.
func (o *options) say(line string) {
	if !o.quiet {
		fmt.Fprintln(o.errOut, line)
	}
}

// tell tells something until something else is told, on a terminal.
func (o *options) tell(line string) {
	if o.quiet || !terminal.Is(o.errOut) {
		return
	}
	if width := terminal.Width(o.errOut); len(line) >= width {
		line = line[:max(0, width-1)]
	}
	fmt.Fprintf(o.errOut, "\r\x1b[K%s", line)
}

// report writes it, and tells the verdict.
func (o *options) report(name string, results []*run.Result, cut bool) error {
	made := &report.Report{Scenario: name, Results: results, About: report.About{
		Command: "ringmaster experiment " + strings.Join(os.Args[1:], " "), Machine: machine(), Versions: o.versions(results), Parameters: o.parameters(), Cut: cut,
	}}
	if err := made.Write(o.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.stdout, "%sThe report is %s\n", made.Summary(), filepath.Join(o.out, "report.html"))
	return err
}

func machine() [][2]string {
	all := [][2]string{{"processors", strconv.Itoa(runtime.NumCPU())}, {"system", runtime.GOOS + "/" + runtime.GOARCH}}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if info, err := proc.CPUInfo(); err == nil && len(info) > 0 && info[0].ModelName != "" {
			all = append(all, [2]string{"processor", info[0].ModelName})
		}
		if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
			all = append(all, [2]string{"memory", fmt.Sprintf("%.1f GiB", float64(*memory.MemTotalBytes)/(1<<30))})
		}
	}
	return all
}

func (o *options) versions(results []*run.Result) [][2]string {
	all := [][2]string{{"Go", runtime.Version()}}
	if len(results) > 0 {
		all = append(all, [2]string{"Kubernetes", results[0].Kubernetes})
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		all = append(all, [2]string{"this program", revision(info)})
		for _, dep := range info.Deps {
			switch dep.Path {
			case "k8s.io/client-go", "sigs.k8s.io/controller-runtime":
				all = append(all, [2]string{dep.Path, dep.Version})
			}
		}
	}
	for _, name := range fleet.External.Programs() {
		if info, err := buildinfo.ReadFile(filepath.Join(o.programs, name)); err == nil {
			all = append(all, [2]string{name, revision(info)})
		}
	}
	return all
}

// revision is what a program was built from.
func revision(info *debug.BuildInfo) string {
	found, changed := "unknown", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			found = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = ", with changes"
		}
	}
	return found + changed
}

func (o *options) parameters() [][2]string {
	cluster := "a control plane of its own, on this machine"
	if o.kubeconfig != "" {
		cluster = "--kubeconfig"
	}
	per := ""
	if o.perOne {
		per = " for each instance"
	}
	return [][2]string{
		{"cluster", cluster},
		{"scale", fmt.Sprint(o.scale, per)},
		{"seed", strconv.FormatUint(o.seed, 10)},
		{"measured every", o.interval.String()},
		{"namespaces of users", strconv.Itoa(o.projects)},
		{"a reconcile waits for", o.workTime.String()},
	}
}
