package command_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/experiment/command"
	"github.com/ringmaster-project/ringmaster/experiment/report"
	"github.com/ringmaster-project/ringmaster/experiment/run"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{ControllerManager: true}) }

// programs returns a folder with the programs that an experiment runs.
func programs(t *testing.T) string {
	t.Helper()
	return rig.Programs(t, "./cmd/sharder", "./examples/webhosting")
}

// output is a buffer that may be read while it is written.
type output struct {
	mu      sync.Mutex
	written bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written.String()
}

// experiment runs the command, and returns its standard output and its error.
func experiment(ctx context.Context, stderr *output, args ...string) (string, error) {
	var out bytes.Buffer
	root := command.New()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func TestInvalidFlags(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "report.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string // a part of the error
	}{
		"no runs":             {[]string{"basic", "--repeat", "0"}, "--repeat 0: choose at least 1"},
		"no lateness":         {[]string{"basic", "--max-lateness", "0s"}, "--max-lateness 0s"},
		"all unfinished":      {[]string{"basic", "--max-unfinished", "1"}, "--max-unfinished 1"},
		"no CPU":              {[]string{"basic", "--max-cpu", "0"}, "--max-cpu 0"},
		"no other CPU":        {[]string{"basic", "--max-other-cpu", "1.1"}, "--max-other-cpu 1.1"},
		"no scenario":         {nil, "got 0 scenarios, want one: basic, scale-out"},
		"two scenarios":       {[]string{"basic", "chaos"}, "got 2 scenarios, want one"},
		"unknown scenario":    {[]string{"basics"}, `scenario "basics" not found (available: basic, scale-out`},
		"unknown setup":       {[]string{"basic", "--setups", "lead,follow"}, `setup "follow" not found (available: lead, in-process, external)`},
		"no setup":            {[]string{"basic", "--setups", ""}, "--setups is empty"},
		"no load":             {[]string{"basic", "--scale", "0"}, "--scale 0"},
		"no instances":        {[]string{"basic", "--instances", "3,0"}, "choose at least 1"},
		"twice":               {[]string{"basic", "--instances", "3,3"}, "external, 3 instances is listed twice: use --repeat"},
		"too few":             {[]string{"rebalance", "--instances", "2"}, "2 of 2 instances leave"},
		"too short":           {[]string{"basic", "--duration", "1ms"}, "too short"},
		"negative objects":    {[]string{"size", "--objects", "-1"}, "--objects -1: choose at least 1"},
		"negative workers":    {[]string{"basic", "--workers", "-1"}, "--workers -1"},
		"no objects":          {[]string{"size", "--objects", "1000,0"}, "--objects 0: choose at least 1"},
		"no workers":          {[]string{"basic", "--workers", "0"}, "--workers 0: choose at least 1"},
		"no time":             {[]string{"basic", "--duration", "0"}, "--duration 0s is too short"},
		"never changed":       {[]string{"basic", "--change-every", "0s"}, "--change-every 0s"},
		"too much":            {[]string{"basic", "--scale", "1e9"}, "--scale 1e+09: choose a value above 0 and up to 100"},
		"endless":             {[]string{"basic", "--scale", "Inf"}, "--scale +Inf: choose"},
		"no flag":             {[]string{"basic", "--nonsense"}, "unknown flag: --nonsense\nSee 'ringmaster experiment --help'"},
		"host of no cluster":  {[]string{"basic", "--host", "127.0.0.1"}, "--host requires --kubeconfig"},
		"negative work":       {[]string{"basic", "--work-time", "-1s"}, "--work-time -1s"},
		"measured too often":  {[]string{"basic", "--interval", "1ms"}, "--interval 1ms"},
		"measured too seldom": {[]string{"basic", "--interval", "1m"}, "--interval 1m0s: choose at most 10s"},
		"no number":           {[]string{"basic", "--scale", "NaN"}, "--scale NaN"},
		"too short a climb":   {[]string{"scale-out", "--duration", "1m"}, "choose at least 3m0s"},
		"no namespace":        {[]string{"basic", "--projects", "0"}, "--projects 0"},
		"no programs":         {[]string{"basic", "--programs", full}, "make build"},
		"no Kubernetes":       {[]string{"basic", "--programs", programs(t), "--assets", full}, "make kubernetes"},
		"existing API server": {[]string{"reconnect", "--kubeconfig", "there"}, "run it without --kubeconfig"},
		"no such cluster":     {[]string{"basic", "--programs", programs(t), "--kubeconfig", filepath.Join(full, "none"), "--host", "127.0.0.1", "--out", t.TempDir()}, "--kubeconfig"},
		"out of reach":        {[]string{"basic", "--setups", "lead,external", "--kubeconfig", "there"}, "--host is missing"},
		"folder is not empty": {[]string{"basic", "--programs", programs(t), "--assets", rig.Assets(t), "--out", full}, "choose another one with --out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := experiment(t.Context(), &output{}, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// found reads the report of an experiment, and checks its files.
func found(g Gomega, folder string) *report.Report {
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(folder, name))
		g.Expect(err).NotTo(HaveOccurred())
		return content
	}
	got := &report.Report{}
	g.Expect(json.Unmarshal(read("results.json"), got)).To(Succeed())
	page, text := string(read("report.html")), string(read("report.md"))
	g.Expect(page).To(And(ContainSubstring("<h2"), ContainSubstring("<svg"), Not(ContainSubstring("NaN")), Not(MatchRegexp(`(src|href)="?https?:`))), "the page is self-contained")
	g.Expect(text).To(And(HavePrefix("# Experiment"), ContainSubstring("## Objectives"), Not(ContainSubstring("NaN"))))
	for _, picture := range regexp.MustCompile(`\]\((pictures/[^)]+)\)`).FindAllStringSubmatch(text, -1) {
		g.Expect(read(picture[1])).To(HavePrefix("<svg"))
	}
	rows, err := csv.NewReader(bytes.NewReader(read("measurements.csv"))).ReadAll()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(rows)).To(BeNumerically(">", 50))
	samples, err := filepath.Glob(filepath.Join(folder, "samples", "*.csv.gz"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(samples).To(HaveLen(len(got.Results)))
	unpacked, err := gzip.NewReader(bytes.NewReader(read(filepath.Join("samples", filepath.Base(samples[0])))))
	g.Expect(err).NotTo(HaveOccurred())
	raw, err := io.ReadAll(unpacked)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(raw)).To(ContainSubstring("experiment_operations_total"))
	return got
}

// expectConsistent checks what must hold in every result, however slow the machine is.
func expectConsistent(g Gomega, result *run.Result) {
	g.Expect(result.Verdicts).To(HaveLen(4))
	for _, v := range result.Verdicts {
		if v.Value == nil {
			g.Expect(result.Scenario).To(Equal("reconnect"), v.Name+" was not measured")
			g.Expect(v.Holds).To(BeFalse())
			continue
		}
		g.Expect(v.Holds).To(Equal(*v.Value <= v.Limit), v.Name)
	}
	g.Expect(result.Overlaps).To(BeEmpty())
	g.Expect(result.Reconciles).To(BeNumerically(">", 0))
	g.Expect(result.Kubernetes).To(HavePrefix("v1."))
	if result.Scenario != "reconnect" { // its API server counts from zero after each restart, and requests to it fail
		g.Expect(result.Errors).To(BeEmpty())
		g.Expect(result.Generator.Failed).To(BeZero())
		g.Expect(result.Requests).To(And(HaveKey("PATCH"), HaveKey("POST")))
	}
	g.Expect(result.Generator.Done).To(BeNumerically(">", 0))
	names := map[string]run.Figures{}
	for _, p := range result.Processes {
		names[p.Name] = p
		g.Expect(p.Resident).To(BeNumerically(">", 1<<20), p.Name)
	}
	g.Expect(names).To(And(HaveKey("kube-apiserver"), HaveKey("etcd"), HaveKey("webhosting-operator-1")))
	g.Expect(names["kube-apiserver"].CPU).To(BeNumerically(">", 0))
}

func TestObjectiveDoesNotHold(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	out := filepath.Join(t.TempDir(), "report")
	summary, err := experiment(t.Context(), &output{}, "basic", "--scale", "0.1", "--duration", "25s", "--setups", "external", "--workers", "1", "--work-time", "10s",
		"--instances", "2", "--max-cpu", "1", "--max-other-cpu", "1", "--max-lateness", "1m", "--programs", programs(t), "--assets", rig.Assets(t), "--out", out, "--quiet")
	g.Expect(err).To(MatchError("not all objectives hold"))
	g.Expect(summary).To(ContainSubstring("NOT all objectives hold"))
	got := found(g, out)
	g.Expect(got.Results).To(HaveLen(1))
	for _, result := range got.Results {
		expectConsistent(g, result)
		for _, verdict := range result.Verdicts[:2] { // queue and ready
			g.Expect(verdict.Holds).To(BeFalse(), verdict.Name)
			g.Expect(*verdict.Value).To(BeNumerically(">", verdict.Limit))
		}
	}
}
