package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// regionsDemo is a running demo of three regions.
type regionsDemo struct {
	demo
	kubeconfig string
	endpoint   string
}

// regionPrograms returns a folder with the programs that the demo runs.
func regionPrograms(t *testing.T) string {
	t.Helper()
	folder := rig.TempDir(t)
	for _, program := range []string{"./examples/etcdcluster", "./examples/etcdagent"} {
		built := rig.Build(t, program)
		if err := os.Symlink(built, filepath.Join(folder, filepath.Base(built))); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

var endpointLine = regexp.MustCompile(`The etcd cluster \S+ is at (\S+)\.`)

// startRegions starts the demo, and waits until it is ready.
func startRegions(t *testing.T, args ...string) *regionsDemo {
	t.Helper()
	c := &regionsDemo{demo: demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}}
	c.SetDefaultEventuallyTimeout(timeout)
	c.SetDefaultEventuallyPollingInterval(500 * time.Millisecond) // each poll starts a process
	c.process = up(t, c.tmp, append([]string{"--example", "etcdcluster", "--programs", regionPrograms(t)}, args...)...)
	c.kubeconfig = ready(t, c.process)
	c.endpoint = endpointLine.FindStringSubmatch(c.process.Tail(100))[1]
	return c
}

// status returns the output of 'ringmaster coordination status'.
func (c *regionsDemo) status(args ...string) string {
	return c.runProgram("./cmd/ringmaster", append([]string{"coordination", "status", "--endpoints", c.endpoint}, args...)...)
}

// coordination returns the coordination records, or an empty view if they cannot be read at the
// moment.
func (c *regionsDemo) coordination() *coordination.View {
	var read struct{ Systems []*coordination.View }
	if json.Unmarshal([]byte(c.status("-o", "json")), &read) != nil || len(read.Systems) != 1 {
		return &coordination.View{}
	}
	return read.Systems[0]
}

// lastDone returns the last completed action, if no action is in progress.
func (c *regionsDemo) lastDone() coordination.DoneRecord {
	view := c.coordination()
	if view.Intent != nil || len(view.DoneRecords) == 0 {
		return coordination.DoneRecord{}
	}
	return view.DoneRecords[0]
}

// members returns the IDs and process IDs of all voting members.
func (c *regionsDemo) members() (ids, pids string) {
	out, err := kubectl(c.t, c.kubeconfig, "get", "etcdclusters", "-A", "-o",
		`jsonpath={range .items[*].status.members[?(@.phase=="Voter")]}{.id},{.pid} {end}`)()
	if err != nil {
		return err.Error(), ""
	}
	for member := range strings.FieldsSeq(out) {
		id, pid, _ := strings.Cut(member, ",")
		ids, pids = ids+" "+id, pids+" "+pid
	}
	return strings.TrimSpace(ids), pids
}

func (c *regionsDemo) ids() string { ids, _ := c.members(); return ids }

// TestRegions uses all commands.
func TestRegions(t *testing.T) {
	t.Parallel()
	c := startRegions(t)
	c.Expect(c.ids()).To(Equal("dc1-1 dc2-1 dc3-1"), "all members vote after the start")
	c.Expect(kubectl(t, c.kubeconfig, "get", "etcdclusters", "-A", "-o", "jsonpath={.items[*].status.members[*].peerURL}")()).To(
		MatchRegexp(`^(https://127\.0\.0\.1:\d+ ?){3}$`), "members talk to each other with TLS")
	c.Expect(c.status("orders")).To(And(HavePrefix("orders: 3 participants"), MatchRegexp(`dc2-operator +dc2 +global`)))
	c.Eventually(kubectl(t, c.kubeconfig, "get", "pods", "-A")).Should(MatchRegexp(`dc1 +dc1-operator +1/1 +Running`))

	_, before := c.members()
	c.Expect(c.command("restart")).To(ContainSubstring("Set --snapshot-count=11000 for all members"))
	c.Eventually(c.lastDone).Should(And(HaveField("Action", coordination.Action("Restart")), HaveField("Failure", ""), HaveField("Members", HaveLen(3))))
	_, after := c.members()
	for pid := range strings.FieldsSeq(before) {
		c.Expect(strings.Fields(after)).NotTo(ContainElement(pid), "the member was restarted")
	}

	// Kill the operator that holds the lock, for longer than its session lasts.
	c.Expect(c.command("replace")).To(ContainSubstring("Replacing dc1-1, dc2-1, dc3-1."))
	var holder string
	c.Eventually(func() int {
		view := c.coordination()
		if view.Lock == nil || view.Intent == nil {
			return 0
		}
		holder = view.Lock.Holder
		return view.Intent.StepIndex
	}).Should(BeNumerically(">", 0))
	c.Expect(c.command("kill", holder)).To(ContainSubstring("restarts in 20s"))
	c.Eventually(c.lastDone, 2*timeout).Should(And(HaveField("Action", coordination.Action("Exclusion")), HaveField("Failure", ""), HaveField("Holder", Not(Equal(holder)))))
	c.Eventually(c.ids).Should(Equal("dc1-2 dc2-2 dc3-2"))
	c.Expect(c.status()).To(HavePrefix("orders: 3 participants"), "the address stays the same when all members were replaced")

	c.Expect(c.command("pause", "dc2-operator")).To(ContainSubstring("Resume it with 'resume'"))
	c.Eventually(func() string { return c.status() }).Should(HavePrefix("orders: 2 participants"))
	c.Expect(c.command("resume", "dc2-operator")).To(ContainSubstring("Resumed dc2-operator"))
	c.Eventually(func() string { return c.status() }).Should(HavePrefix("orders: 3 participants"))

	c.Expect(c.command("scale", "4")).To(ContainSubstring("'scale' is only available with --example webhosting"))
	c.Expect(c.command("kill", "nobody")).To(ContainSubstring("(available: dc1-operator"))
	c.Eventually(func() string { return c.process.Tail(1000) }).Should(And(
		ContainSubstring(holder+": killed by you"), MatchRegexp(`dc3-2: \w+ → Voter`), // the learner phase may be too short to be seen
		MatchRegexp(`Restart of dc1-1, dc2-1, dc3-1, step \d of 4: `), Not(ContainSubstring("\x1b"))))
	c.stop()
}

// TestRegionsLive restarts all members with a key, and ends the demo with Ctrl-C.
func TestRegionsLive(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(timeout)
	tmp := rig.TempDir(t)
	s := startSession(t, tmp, "--example", "etcdcluster", "--programs", regionPrograms(t))
	g.Eventually(s.output).Should(MatchRegexp(`orders  3 of 3 members voting · dc\d-1 leads`))
	g.Eventually(s.output).Should(ContainSubstring("› 1 dc1-operator"))
	g.Eventually(s.output).Should(MatchRegexp(`last: Inclusion of dc2-1, dc3-1|last: Inclusion of dc\d-1`))
	_, err := s.pty.WriteString("2a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.output).Should(ContainSubstring("› 2 dc2-operator"))
	g.Eventually(s.output).Should(ContainSubstring("carries out the Restart, step"))
	g.Eventually(s.output).Should(MatchRegexp(`› 4/4  restart dc\d-1`))
	g.Eventually(s.output).Should(ContainSubstring("last: Restart of dc1-1, dc2-1, dc3-1"))
	children := rig.Descendants(t, s.cmd.Process.Pid)
	g.Expect(children).To(And(ContainElement("dc1-operator"), ContainElement("dc3-agent"), ContainElement("etcd")))
	_, err = s.pty.WriteString("\x03")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.ended).Should(Receive(BeNil()))
	g.Eventually(s.output).Should(MatchRegexp(`\[\?1049l(.|\n)*Stopping\.(.|\n)*Stopped in`))
	g.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }).Should(BeEmpty())
}
