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

	"github.com/creack/pty"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// session is a demo on a pseudo-terminal.
type session struct {
	pty, tty *os.File
	cmd      *exec.Cmd
	ended    chan error

	mu  sync.Mutex
	out bytes.Buffer
}

// startSession starts a demo on a pseudo-terminal. The test keeps both ends open, to read the state
// of the terminal after the demo has ended.
func startSession(t *testing.T, tmp string, args ...string) *session {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pty: master, tty: tty, ended: make(chan error, 1)}
	if err := s.resize(120, 40); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"up", "--assets", rig.Assets(t), "--programs", programs(t)}, args...)
	s.cmd = exec.Command(rig.Build(t, "./demo", rig.Race), args...)
	s.cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	go s.read()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		master.Close()
		tty.Close()
		if t.Failed() {
			t.Logf("the terminal got:\n%s", s.output())
		}
	})
	return s
}

func (s *session) resize(width, height uint16) error {
	return pty.Setsize(s.pty, &pty.Winsize{Cols: width, Rows: height})
}

func (s *session) read() {
	buffer := make([]byte, 4096)
	for {
		n, err := s.pty.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.out.Write(buffer[:n])
		s.mu.Unlock()
	}
}

// styles matches the escape sequences of styles.
var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// output returns everything that was written since the last reset, without styles.
func (s *session) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return styles.ReplaceAllString(s.out.String(), "")
}

// resetOutput clears the output.
func (s *session) resetOutput() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Reset()
}

// TestLive stops the leader with keys, resizes the terminal, and ends the demo with Ctrl-C.
func TestLive(t *testing.T) {
	d := &demo{WithT: NewWithT(t), t: t, tmp: rig.TempDir(t)}
	d.SetDefaultEventuallyTimeout(timeout)
	s := startSession(t, d.tmp, "--mode", "lead", "--shards", "2", "--websites", "5")
	before, err := term.GetState(int(s.tty.Fd()))
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.output).Should(MatchRegexp(`webhosting-operator-[01] leads · 5 websites, 5 ready`))
	folders, err := filepath.Glob(filepath.Join(d.tmp, "ringmaster-*"))
	d.Expect(err).NotTo(HaveOccurred())
	d.Expect(folders).To(HaveLen(1))
	d.connect(filepath.Join(folders[0], "kubeconfig"))

	const election = webhostingRing + "-leader"
	leads, key, next := instance(0), "1", instance(1)
	if d.holder(election) != leads {
		leads, key, next = next, "2", leads
	}
	_, err = s.pty.WriteString(key)
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.output).Should(ContainSubstring("› " + key + " " + leads))
	_, err = s.pty.WriteString("s")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.output).Should(And(
		ContainSubstring("Asked "+leads+" to stop."), ContainSubstring(next+" leads · 5 websites")))
	d.Expect(d.holder(election)).To(Equal(next))
	s.resetOutput()
	d.Expect(s.resize(60, 12)).To(Succeed())
	d.Eventually(s.output).Should(MatchRegexp(`\[12;1H\x1b\[K1-9 k .*q quit`), "the keys are in the last line")
	s.resetOutput()
	d.Expect(s.resize(80, 24)).To(Succeed())
	d.Eventually(s.output).Should(And(
		ContainSubstring("  . "+filepath.Join(folders[0], "env")), MatchRegexp(`websites: http://127\.0\.0\.1:\d+/`), ContainSubstring("q quit")))
	s.resetOutput()
	_, err = s.pty.WriteString("?")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.output).Should(And(ContainSubstring("# more standby instances"), ContainSubstring("press any key to return")))
	_, err = s.pty.WriteString(" ")
	d.Expect(err).NotTo(HaveOccurred())

	children := rig.Descendants(t, s.cmd.Process.Pid)
	_, err = s.pty.WriteString("\x03")
	d.Expect(err).NotTo(HaveOccurred())
	d.Eventually(s.ended).Should(Receive(BeNil()))
	d.Eventually(s.output).Should(MatchRegexp(`\[\?1049l(.|\n)*Stopping\.(.|\n)*Stopped in`))
	d.Expect(term.GetState(int(s.tty.Fd()))).To(Equal(before))
	d.Eventually(func() map[int]string { return rig.Alive(children) }).Should(BeEmpty())
	d.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(d.tmp) }).Should(BeEmpty())
}

// TestTerminalIsRestoredAfterKill kills the demo, and expects a restored terminal and no remaining
// processes or files.
func TestTerminalIsRestoredAfterKill(t *testing.T) {
	g := NewWithT(t)
	tmp := rig.TempDir(t)
	s := startSession(t, tmp, "--mode", "lead", "--shards", "1", "--websites", "1")
	before, err := term.GetState(int(s.tty.Fd()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(s.output, timeout).Should(ContainSubstring("1 website, 1 ready"))
	g.Eventually(s.output, timeout).Should(ContainSubstring("\x1b[?1049h"), "the live view switches to the alternate screen")
	children := rig.Descendants(t, s.cmd.Process.Pid)
	g.Expect(children).To(ContainElement(instance(0)), "the process has the name of the instance")
	g.Expect(s.cmd.Process.Kill()).To(Succeed())
	g.Eventually(s.ended, "10s").Should(Receive())
	g.Eventually(func() (*term.State, error) { return term.GetState(int(s.tty.Fd())) }, "10s", 10*time.Millisecond).Should(Equal(before))
	g.Eventually(s.output, "10s").Should(HaveSuffix("\x1b[?25h\x1b[?1049l"))
	g.Eventually(func() map[int]string { return rig.Alive(children) }, "10s").Should(BeEmpty())
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(tmp) }, "10s").Should(BeEmpty())
}
