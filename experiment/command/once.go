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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

// find finds the programs where 'make build' and 'make kubernetes' put them, or where flags name them.
func (o *options) find(plan []plannedRun) error {
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
				return fmt.Errorf("program %s not found in %s: build it with 'make build', or set --programs to its folder", name, o.programs)
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

// access returns the configuration of the cluster of --kubeconfig.
func (o *options) access() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	return config, nil
}

// cluster returns the cluster of --kubeconfig, or starts a control plane.
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

// once makes one run. It deletes the files of the run, unless its logs are needed; the report is written later.
func (o *options) once(ctx context.Context, next plannedRun, which string, after time.Duration) (result *run.Result, err error) {
	dir, err := os.MkdirTemp("", "ringmaster-experiment-")
	if err != nil {
		return nil, fmt.Errorf("creating a folder: %w", err)
	}
	defer func() {
		switch {
		case err != nil && ctx.Err() == nil:
			err = fmt.Errorf("%w\nThe logs are in %s", err, dir)
		case result != nil && len(result.Overlaps) > 0:
			o.say("The logs are in " + dir)
		default:
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	progress := o.progress(which, after)
	progress(0, next.Duration, "starting")
	defer o.update("")
	config, plane, err := o.cluster(ctx, dir)
	if err != nil {
		return nil, err
	}
	if plane != nil {
		defer plane.Kill() // its data is deleted
	}
	return run.Run(ctx, run.Options{
		Scenario: next.Scenario, Seed: next.seed(o.seed), Repeat: next.repeat, Limits: o.limits, Projects: o.projects, Interval: o.interval, Dir: dir, Progress: progress,
		Samples: filepath.Join(o.out, "samples", next.file()+".csv.gz"),
		Fleet: fleet.Options{
			Setup: next.setup, Instances: next.Instances, Workers: next.Workers, WorkTime: o.workTime, Config: config, Plane: plane, Host: cmp.Or(o.host, "127.0.0.1"),
			Programs: o.programs, Dir: dir, Seed: next.seed(o.seed),
			Report: func(message string, wrong bool) {
				if wrong {
					progress(-1, 0, message)
				}
			},
		},
	})
}

// progress returns a function that reports progress: on a terminal in one line that changes, elsewhere every 30 s. After is the
// duration of all later runs. A negative time is for a message that is reported once.
func (o *options) progress(title string, after time.Duration) func(done, all time.Duration, state string) {
	const every = 30 * time.Second
	var last time.Time
	if terminal.Is(o.errOut) {
		o.say(title) // once, so that the line has room for the rest
	}
	return func(done, all time.Duration, state string) {
		if done < 0 {
			o.update("")
			o.say(title + ": " + state)
			return
		}
		done = min(done, all)
		line := fmt.Sprintf("%s of %s, %s left: %s", formatDuration(done), formatDuration(all), formatDuration(all-done+after), state)
		switch now := time.Now(); {
		case terminal.Is(o.errOut):
			o.update(line)
		case now.Sub(last) >= every || done == all:
			last = now
			o.say(title + ": " + line)
		}
	}
}

// short formats a duration without seconds that are zero.
func formatDuration(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// say prints a line.
func (o *options) say(line string) {
	if !o.quiet {
		fmt.Fprintln(o.errOut, line)
	}
}

// update replaces the current line on a terminal.
func (o *options) update(line string) {
	if o.quiet || !terminal.Is(o.errOut) {
		return
	}
	if width := terminal.Width(o.errOut); len(line) >= width {
		line = line[:max(0, width-1)]
	}
	fmt.Fprintf(o.errOut, "\r\x1b[K%s", line)
}

// report writes the report, and prints the outcome of each run.
func (o *options) report(name string, results []*run.Result, interrupted bool) error {
	r := &report.Report{Scenario: name, Results: results, About: report.About{
		Command: commandLine(os.Args[1:]), Machine: machine(), Versions: o.versions(results), Parameters: o.parameters(), Interrupted: interrupted,
	}}
	if err := r.Write(o.out); err != nil {
		return err
	}
	// An unusable report must not replace a usable one.
	if usable := conclude(results, interrupted); o.summary != "" && (usable == nil || errors.Is(usable, errVerdict)) {
		if err := r.WriteSummary(o.summary); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(o.stdout, "%sThe report is %s\n", r.Summary(), filepath.Join(o.out, "report.html"))
	return err
}

// commandLine returns the command that repeats the experiment, without flags that are paths or addresses of this machine.
func commandLine(args []string) string {
	local := []string{"assets", "host", "kubeconfig", "out", "programs", "summary"}
	kept := []string{"ringmaster", "experiment"}
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case !strings.HasPrefix(args[i], "-") || !slices.Contains(local, name):
			if args[i] != "--quiet" {
				kept = append(kept, args[i])
			}
		case !hasValue:
			i++ // its value
		}
	}
	return strings.Join(kept, " ")
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
		all = append(all, [2]string{"ringmaster-experiment", revision(info)})
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

// revision returns the commit that a program was built from.
func revision(info *debug.BuildInfo) string {
	found, changed := "unknown", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			found = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = ", modified"
		}
	}
	return found + changed
}

func (o *options) parameters() [][2]string {
	cluster := "a control plane on this machine"
	if o.kubeconfig != "" {
		cluster = "an existing one"
	}
	per := ""
	if o.perInstance {
		per = " per instance"
	}
	return [][2]string{
		{"cluster", cluster},
		{"scale", fmt.Sprint(o.scale, per)},
		{"seed", strconv.FormatUint(o.seed, 10)},
		{"interval", o.interval.String()},
		{"namespaces", strconv.Itoa(o.projects)},
		{"work time", o.workTime.String()},
	}
}
