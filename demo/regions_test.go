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

// country is a demo of three regions, as its user sees it.
type country struct {
	demo
	kubeconfig string
	endpoint   string
}

// regionPrograms is a folder with what that demo runs.
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

var endpointLine = regexp.MustCompile(`which is at (\S+), whichever`)

// found starts the demo, and waits until it says that all is ready.
func found(t *testing.T, args ...string) *country {
	t.Helper()
	c := &country{demo: demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}}
	c.SetDefaultEventuallyTimeout(patience)
	c.SetDefaultEventuallyPollingInterval(500 * time.Millisecond) // each poll starts a process
	c.process = up(t, c.tmp, append([]string{"--example", "etcdcluster", "--programs", regionPrograms(t)}, args...)...)
	c.kubeconfig = ready(t, c.process)
	c.endpoint = endpointLine.FindStringSubmatch(c.process.Tail(100))[1]
	return c
}

// asks is what somebody types who wants to know what the operators agree on.
func (c *country) asks(args ...string) string {
	return c.runs("./cmd/ringmaster", append([]string{"coordination", "status", "--endpoints", c.endpoint}, args...)...)
}

// agreement is what they agree on, or nothing if that cannot be known at the moment.
func (c *country) agreement() *coordination.View {
	var read struct{ Systems []*coordination.View }
	if json.Unmarshal([]byte(c.asks("-o", "json")), &read) != nil || len(read.Systems) != 1 {
		return &coordination.View{}
	}
	return read.Systems[0]
}

// last is what was done last, if nothing is being done.
func (c *country) last() coordination.DoneRecord {
	view := c.agreement()
	if view.Intent != nil || len(view.DoneRecords) == 0 {
		return coordination.DoneRecord{}
	}
	return view.DoneRecords[0]
}

// members are the IDs of all members that vote and are well, with the numbers of their processes.
func (c *country) members() (ids, pids string) {
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

func (c *country) ids() string { ids, _ := c.members(); return ids }

// TestRegions does everything that a person may do.
func TestRegions(t *testing.T) {
	t.Parallel()
	c := found(t)
	c.Expect(c.ids()).To(Equal("dc1-1 dc2-1 dc3-1"), "all vote when it says so")
	c.Expect(kubectl(t, c.kubeconfig, "get", "etcdclusters", "-A", "-o", "jsonpath={.items[*].status.members[*].peerURL}")()).To(
		MatchRegexp(`^(https://127\.0\.0\.1:\d+ ?){3}$`), "members talk to each other with TLS")
	c.Expect(c.asks("orders")).To(And(HavePrefix("orders: 3 instances"), MatchRegexp(`dc2-operator +dc2 +global`)))
	c.Eventually(kubectl(t, c.kubeconfig, "get", "pods", "-A")).Should(MatchRegexp(`dc1 +dc1-operator +1/1 +Running`))

	_, before := c.members()
	c.Expect(c.types("restart")).To(ContainSubstring("All members are to have --snapshot-count=11000"))
	c.Eventually(c.last).Should(And(HaveField("Action", coordination.Action("Restart")), HaveField("Failure", ""), HaveField("Members", HaveLen(3))))
	_, after := c.members()
	for pid := range strings.FieldsSeq(before) {
		c.Expect(strings.Fields(after)).NotTo(ContainElement(pid), "it is another process")
	}

	// Who acts is killed in the middle of it, for longer than the others believe in it.
	c.Expect(c.types("replace")).To(ContainSubstring("To be replaced: [dc1-1 dc2-1 dc3-1]"))
	var acts string
	c.Eventually(func() int {
		view := c.agreement()
		if view.Lock == nil || view.Intent == nil {
			return 0
		}
		acts = view.Lock.Holder
		return view.Intent.StepIndex
	}).Should(BeNumerically(">", 0))
	c.Expect(c.types("kill", acts)).To(ContainSubstring("started again in 20s"))
	c.Eventually(c.last, 2*patience).Should(And(HaveField("Action", coordination.Action("Exclusion")), HaveField("Failure", ""), HaveField("Holder", Not(Equal(acts)))))
	c.Eventually(c.ids).Should(Equal("dc1-2 dc2-2 dc3-2"))
	c.Expect(c.asks()).To(HavePrefix("orders: 3 instances"), "the address is the same when all members are others")

	c.Expect(c.types("pause", "dc2-operator")).To(ContainSubstring("goes on with 'resume'"))
	c.Eventually(func() string { return c.asks() }).Should(HavePrefix("orders: 2 instances"))
	c.Expect(c.types("resume", "dc2-operator")).To(ContainSubstring("goes on"))
	c.Eventually(func() string { return c.asks() }).Should(HavePrefix("orders: 3 instances"))

	c.Expect(c.types("scale", "4")).To(ContainSubstring("scale is for the example webhosting"))
	c.Expect(c.types("kill", "nobody")).To(ContainSubstring("there are: dc1-operator"))
	c.Eventually(func() string { return c.process.Tail(1000) }).Should(And(
		ContainSubstring(acts+": killed by you"), MatchRegexp(`dc3-2: \w+ → Voter`), // it may not have been seen as a learner
		MatchRegexp(`Restart of dc1-1, dc2-1, dc3-1, step \d of 4: `), Not(ContainSubstring("\x1b"))))
	c.ends()
}

// TestRegionsLive looks at the regions, restarts all members with a key, and ends it with Ctrl-C.
func TestRegionsLive(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(patience)
	tmp := rig.TempDir(t)
	s := sit(t, tmp, "--example", "etcdcluster", "--programs", regionPrograms(t))
	g.Eventually(s.seen).Should(MatchRegexp(`orders  3 of 3 members vote · dc\d-1 leads`))
	g.Eventually(s.seen).Should(ContainSubstring("› 1 dc1-operator"))
	g.Eventually(s.seen).Should(MatchRegexp(`last: Inclusion of dc2-1, dc3-1|last: Inclusion of dc\d-1`))
	_, err := s.Person.WriteString("2a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.seen).Should(ContainSubstring("› 2 dc2-operator"))
	g.Eventually(s.seen).Should(ContainSubstring("carries out the Restart, step"))
	g.Eventually(s.seen).Should(MatchRegexp(`› 4/4  restart dc\d-1`))
	g.Eventually(s.seen).Should(ContainSubstring("last: Restart of dc1-1, dc2-1, dc3-1"))
	children := rig.Descendants(t, s.cmd.Process.Pid)
	g.Expect(children).To(And(ContainElement("dc1-operator"), ContainElement("dc3-agent"), ContainElement("etcd")))
	_, err = s.Person.WriteString("\x03")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.ended).Should(Receive(BeNil()))
	g.Eventually(s.seen).Should(MatchRegexp(`\[\?1049l(.|\n)*Stopping\.(.|\n)*Stopped in`))
	g.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }).Should(BeEmpty())
}
