package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/ringmaster-project/ringmaster/demo/pty"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// seat is where a person sits, in front of a terminal on which a demo runs.
type seat struct {
	*pty.Pair
	cmd   *exec.Cmd
	ended chan error

	mu  sync.Mutex
	out bytes.Buffer
}

// sit starts a demo on a terminal.
func sit(t *testing.T, tmp string, args ...string) *seat {
	t.Helper()
	pair, err := pty.Open(120, 40)
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{Pair: pair, ended: make(chan error, 1)}
	args = append([]string{"up", "--assets", rig.Assets(t), "--programs", programs(t)}, args...)
	s.cmd = exec.Command(rig.Build(t, "./demo", rig.Race), args...)
	s.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = pair.Terminal, pair.Terminal, pair.Terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	go s.watch()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		pair.Close()
		if t.Failed() {
			t.Logf("the terminal got:\n%s", s.seen())
		}
	})
	return s
}

func (s *seat) watch() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.Person.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.out.Write(buffer[:n])
		s.mu.Unlock()
	}
}

// styles are what makes words bold or coloured.
var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// seen is all that was ever to be seen, without colours.
func (s *seat) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return styles.ReplaceAllString(s.out.String(), "")
}

// forget makes seen begin anew.
func (s *seat) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Reset()
}

// TestLive looks at a demo in which one leads, and stops it with keys. Then it ends it with Ctrl-C, and has
// its terminal back.
func TestLive(t *testing.T) {
	d := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}
	d.SetDefaultEventuallyTimeout(patience)
	s := sit(t, d.tmp, "--mode", "lead", "--shards", "2", "--websites", "5")
	before, err := term.GetState(int(s.Terminal.Fd()))
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.seen).Should(MatchRegexp(`webhosting-operator-[01] leads · 5 websites, 5 ready`))
	folders, err := filepath.Glob(filepath.Join(d.tmp, "ringmaster-*"))
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(folders).To(HaveLen(1))
	d.reach(filepath.Join(folders[0], "kubeconfig"))

	const election = webhostingRing + "-leader"
	leads, key, next := instance(0), "1", instance(1)
	if d.holder(election) != leads {
		leads, key, next = next, "2", leads
	}
	_, err = s.Person.WriteString(key)
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.seen).Should(ContainSubstring("› " + key + " " + leads))
	_, err = s.Person.WriteString("s")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.seen).Should(And(
		ContainSubstring("Asked "+leads+" to stop."), ContainSubstring(next+" leads · 5 websites")))
	d.Expect(d.holder(election)).To(Equal(next))
	s.forget()
	d.Expect(s.Resize(60, 12)).To(Succeed())
	d.Eventually(s.seen).Should(MatchRegexp(`\[12;1H1-9 k .*q quit`), "the last line is the last")
	s.forget()
	d.Expect(s.Resize(80, 24)).To(Succeed())
	d.Eventually(s.seen).Should(And(
		ContainSubstring("  . "+filepath.Join(folders[0], "env")), MatchRegexp(`websites: http://127\.0\.0\.1:\d+/`), ContainSubstring("q quit")))
	s.forget()
	_, err = s.Person.WriteString("?")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.seen).Should(And(ContainSubstring("# more that wait"), ContainSubstring("any key goes back")))
	_, err = s.Person.WriteString(" ")
	d.Expect(err).NotTo(HaveOccurred())

	children := rig.Descendants(t, s.cmd.Process.Pid)
	_, err = s.Person.WriteString("\x03")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.ended).Should(Receive(BeNil()))
	d.Eventually(s.seen).Should(MatchRegexp(`\[\?1049l(.|\n)*Stopping\.(.|\n)*Stopped in`))
	d.Expect(term.GetState(int(s.Terminal.Fd()))).To(Equal(before))
	d.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	d.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(d.tmp) }).Should(BeEmpty())
}

// TestLiveIsKilled leaves the terminal in order, and nothing behind.
func TestLiveIsKilled(t *testing.T) {
	g := NewWithT(t)
	tmp := rig.TempDir(t)
	s := sit(t, tmp, "--mode", "lead", "--shards", "1", "--websites", "1")
	before, err := term.GetState(int(s.Terminal.Fd()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.seen, patience).Should(ContainSubstring("1 website, 1 ready"))
	g.Eventually(s.seen, patience).Should(ContainSubstring("\x1b[?1049h"), "the live view takes the screen after that")
	children := rig.Descendants(t, s.cmd.Process.Pid)
	g.Expect(children).To(ContainElement(instance(0)), "a process with the name of the instance")
	g.Expect(s.cmd.Process.Kill()).To(Succeed())
	g.Eventually(s.ended, "10s").Should(Receive())
	g.Eventually(func() (*term.State, error) { return term.GetState(int(s.Terminal.Fd())) }, "10s", 10*time.Millisecond).Should(Equal(before))
	g.Eventually(s.seen, "10s").Should(HaveSuffix("\x1b[?25h\x1b[?1049l"))
	g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
}
