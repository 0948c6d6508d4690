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

	"github.com/creack/pty"
	. "github.com/onsi/gomega"
	"golang.org/x/term"

	"github.com/ringmaster-project/ringmaster/demo/screen"
)

// programVariable makes the test binary a program on a terminal. Its value is how the program ends.
const programVariable = "RINGMASTER_TERMINAL_TEST"

func TestMain(m *testing.M) {
	if end := os.Getenv(programVariable); end != "" {
		runProgram(end)
		return
	}
	os.Exit(m.Run())
}

// runProgram draws the last key and the size until the key q, and then ends in the given way.
func runProgram(end string) {
	if !screen.IsInteractive(os.Stdin, os.Stdout) {
		panic("not an interactive terminal")
	}
	t, err := screen.Open(os.Stdin, os.Stdout)
	if err != nil {
		panic(err)
	}
	if end == "normal" {
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
		switch end {
		case "panic":
			panic("oh no")
		case "panic in a goroutine":
			go panic("oh no")
			select {}
		}
		return
	}
}

// session is a program on a pseudo-terminal.
type session struct {
	*WithT
	pty, tty *os.File
	cmd      *exec.Cmd
	ended    chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func startSession(t *testing.T, end string) *session {
	t.Helper()
	master, tty := openPTY(t, 40, 10)
	s := &session{WithT: NewWithT(t), pty: master, tty: tty, ended: make(chan error, 1)}
	s.SetDefaultEventuallyTimeout(2 * time.Minute)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(executable)
	s.cmd.Env = append(os.Environ(), programVariable+"="+end, "TERM=xterm")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	go s.read()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the terminal got %q", s.output())
		}
	})
	return s
}

// openPTY opens a pseudo-terminal. The test keeps both ends open, to read the state of the terminal
// after the program exited.
func openPTY(t *testing.T, width, height uint16) (master, tty *os.File) {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		master.Close()
		tty.Close()
	})
	if err := pty.Setsize(master, &pty.Winsize{Cols: width, Rows: height}); err != nil {
		t.Fatal(err)
	}
	return master, tty
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

func (s *session) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *session) press(key string) {
	_, err := s.pty.WriteString(key)
	s.Expect(err).NotTo(HaveOccurred())
}

func TestKeysAndSize(t *testing.T) {
	s := startSession(t, "normal")
	s.Eventually(s.output).Should(ContainSubstring("key -"))
	s.Expect(s.output()).To(ContainSubstring(strings.Repeat("w", 40)))
	s.press("\x1b[A") // arrow up, which must not arrive as A
	s.press("x")
	s.Eventually(s.output).Should(ContainSubstring("key x"))
	s.Expect(s.output()).NotTo(ContainSubstring("key A"))
	s.Expect(pty.Setsize(s.pty, &pty.Winsize{Cols: 60, Rows: 10})).To(Succeed())
	s.Eventually(s.output).Should(ContainSubstring(strings.Repeat("w", 60)))
	s.press("\x03") // Ctrl-C arrives as a key
	s.Eventually(s.output).Should(ContainSubstring("key \x03"))
}

// TestTerminalIsRestored ends the program in every possible way.
func TestTerminalIsRestored(t *testing.T) {
	quit := func(s *session) { s.press("q") }
	for name, end := range map[string]func(*session){
		"normal":               quit,
		"without Close":        quit,
		"panic":                quit,
		"panic in a goroutine": quit,
		"killed":               func(s *session) { s.Expect(s.cmd.Process.Kill()).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startSession(t, name)
			s.Eventually(s.output).Should(ContainSubstring("key -"))
			raw, err := term.GetState(int(s.tty.Fd()))
			s.Expect(err).NotTo(HaveOccurred())
			end(s)
			s.Eventually(s.ended).Should(Receive())
			s.Eventually(func() *term.State {
				now, err := term.GetState(int(s.tty.Fd()))
				s.Expect(err).NotTo(HaveOccurred())
				return now
			}).ShouldNot(Equal(raw), "the terminal has left raw mode")
			s.Eventually(s.output).Should(HaveSuffix("\x1b[?25h\x1b[?1049l"), "the main screen is shown, with its cursor")
			s.Expect(strings.Count(s.output(), "\x1b[?1049l")).To(Equal(1))
		})
	}
}

func TestIsInteractive(t *testing.T) {
	_, tty := openPTY(t, 80, 24)
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("TERM", "xterm")
	if screen.IsInteractive(file, tty) || screen.IsInteractive(tty, file) {
		t.Error("a file is not interactive")
	}
	if screen.IsInteractive(tty, tty) {
		t.Error("a background process is not interactive")
	}
	t.Setenv("TERM", "dumb")
	if screen.IsInteractive(tty, tty) {
		t.Error("a dumb terminal is not interactive")
	}
}
