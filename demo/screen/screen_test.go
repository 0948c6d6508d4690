//go:build unix

package screen_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/ringmaster-project/ringmaster/demo/pty"
	"github.com/ringmaster-project/ringmaster/demo/screen"
)

// programVariable makes the test binary a program on a terminal, which does what it says.
const programVariable = "RINGMASTER_TERMINAL_TEST"

func TestMain(m *testing.M) {
	if how := os.Getenv(programVariable); how != "" {
		runProgram(how)
		return
	}
	os.Exit(m.Run())
}

// play draws the last key and the size until it is told to end in some way.
func runProgram(how string) {
	if !screen.IsInteractive(os.Stdin, os.Stdout) {
		panic("this is no terminal for a person")
	}
	t, err := screen.Open(os.Stdin, os.Stdout)
	if err != nil {
		panic(err)
	}
	if how == "well" {
		defer t.Close()
	}
	key := byte('-')
	for {
		width, _ := t.Size()
		if err := t.Draw([]string{"key " + string(key), strings.Repeat("w", width)}, false); err != nil {
			panic(err)
		}
		select {
		case key = <-t.Keys():
		case <-t.Resized():
			continue
		}
		if key != 'q' {
			continue
		}
		switch how {
		case "panic":
			panic("oh no")
		case "panic elsewhere":
			go panic("oh no")
			select {}
		}
		return
	}
}

// session is where a person sits.
type session struct {
	*pty.Pair
	*WithT
	cmd   *exec.Cmd
	ended chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func startSession(t *testing.T, how string) *session {
	t.Helper()
	pair, err := pty.Open(40, 10)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Pair: pair, WithT: NewWithT(t), ended: make(chan error, 1)}
	s.SetDefaultEventuallyTimeout(2 * time.Minute)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(executable)
	s.cmd.Env = append(os.Environ(), programVariable+"="+how, "TERM=xterm")
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
			t.Logf("the terminal got %q", s.seen())
		}
	})
	return s
}

func (s *session) watch() {
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

func (s *session) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *session) types(key string) {
	_, err := s.Person.WriteString(key)
	s.Expect(err).NotTo(HaveOccurred())
}

func TestKeysAndSize(t *testing.T) {
	s := startSession(t, "well")
	s.Eventually(s.seen).Should(ContainSubstring("key -"))
	s.Expect(s.seen()).To(ContainSubstring(strings.Repeat("w", 40)))
	s.types("\x1b[A") // the arrow up is no A
	s.types("x")
	s.Eventually(s.seen).Should(ContainSubstring("key x"))
	s.Expect(s.seen()).NotTo(ContainSubstring("key A"))
	s.Expect(s.Resize(60, 10)).To(Succeed())
	s.Eventually(s.seen).Should(ContainSubstring(strings.Repeat("w", 60)))
	s.types("\x03") // Ctrl-C is a key like others
	s.Eventually(s.seen).Should(ContainSubstring("key \x03"))
}

// TestTerminalIsGivenBack ends the program in every way.
func TestTerminalIsGivenBack(t *testing.T) {
	press := func(s *session) { s.types("q") }
	for how, end := range map[string]func(*session){
		"well":            press,
		"forgotten":       press,
		"panic":           press,
		"panic elsewhere": press,
		"killed":          func(s *session) { s.Expect(s.cmd.Process.Kill()).To(Succeed()) },
	} {
		t.Run(how, func(t *testing.T) {
			s := startSession(t, how)
			s.Eventually(s.seen).Should(ContainSubstring("key -"))
			raw, err := term.GetState(int(s.Terminal.Fd()))
			s.Expect(err).NotTo(HaveOccurred())
			end(s)
			s.Eventually(s.ended).Should(Receive())
			s.Eventually(func() *term.State {
				now, err := term.GetState(int(s.Terminal.Fd()))
				s.Expect(err).NotTo(HaveOccurred())
				return now
			}).ShouldNot(Equal(raw), "what is typed is shown again")
			s.Eventually(s.seen).Should(HaveSuffix("\x1b[?25h\x1b[?1049l"), "the screen from before is there, with its cursor")
			s.Expect(strings.Count(s.seen(), "\x1b[?1049l")).To(Equal(1))
		})
	}
}

func TestIsInteractive(t *testing.T) {
	pair, err := pty.Open(80, 24)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("TERM", "xterm")
	if screen.IsInteractive(file, pair.Terminal) || screen.IsInteractive(pair.Terminal, file) {
		t.Error("nobody reads a file while it is written")
	}
	if screen.IsInteractive(pair.Terminal, pair.Terminal) {
		t.Error("this test is not in the foreground of that terminal")
	}
	t.Setenv("TERM", "dumb")
	if screen.IsInteractive(pair.Terminal, pair.Terminal) {
		t.Error("the terminal is dumb")
	}
}
