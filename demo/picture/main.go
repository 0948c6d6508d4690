//go:build unix

// Command picture makes the picture of the live view that is in the README: it runs a real 'ringmaster up'
// on a pseudo-terminal, presses keys, and draws what the terminal shows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/pty"
)

const width, height = 118, 34

func main() {
	ringmaster := flag.String("ringmaster", "bin/ringmaster", "the program")
	assets := flag.String("assets", "bin/kubernetes", "folder with Kubernetes' programs")
	out := flag.String("o", "docs/pictures/live.svg", "file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *ringmaster, *assets, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ringmaster, assets, out string) error {
	s, err := sit(ctx, ringmaster, assets)
	if err != nil {
		return err
	}
	shots, err := s.play(ctx)
	if err := errors.Join(err, s.leave()); err != nil {
		return fmt.Errorf("%w; the terminal shows:\n%s", err, s.text())
	}
	if err := os.WriteFile(out, []byte(draw(shots)), 0o644); err != nil {
		return fmt.Errorf("writing the picture: %w", err)
	}
	return nil
}

// seat is where a person would sit, in front of the program.
type seat struct {
	*pty.Pair
	cmd   *exec.Cmd
	ended chan error

	mu       sync.Mutex
	terminal *terminal
}

func sit(ctx context.Context, ringmaster, assets string) (*seat, error) {
	pair, err := pty.Open(width, height)
	if err != nil {
		return nil, err
	}
	folders := make([]string, 2)
	for i, name := range []string{ringmaster, assets} {
		if folders[i], err = filepath.Abs(name); err != nil {
			return nil, err
		}
	}
	s := &seat{Pair: pair, ended: make(chan error, 1), terminal: newTerminal(width, height)}
	s.cmd = exec.CommandContext(ctx, ringmaster, "up", "--assets", assets, "--websites", "60")
	s.cmd.Env = append(os.Environ(),
		"TERM=xterm-256color", "NO_COLOR=", "TZ=UTC",
		// Nobody who looks at the picture has these folders.
		"PATH="+filepath.Dir(folders[0])+":"+folders[1]+":"+os.Getenv("PATH"))
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = pair.Terminal, pair.Terminal, pair.Terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	// It ends in good order, and takes all that it has started with it.
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.cmd.Wait() }()
	go s.watch()
	return s, nil
}

// watch shows what the program writes, here and on the terminal of who makes the picture, until it ends.
func (s *seat) watch() {
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.Person.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		_, _ = s.terminal.Write(buffer[:n])
		taken := s.terminal.other
		s.mu.Unlock()
		if !taken {
			_, _ = os.Stderr.Write(buffer[:n])
		}
	}
}

func (s *seat) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.terminal.text()
}

func (s *seat) sees(what string) bool { return regexp.MustCompile(what).MatchString(s.text()) }

// see waits until the terminal shows something.
func (s *seat) see(ctx context.Context, what string) error {
	const limit, interval = 2 * time.Minute, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !s.sees(what) {
		select {
		case <-time.After(interval):
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("ringmaster ended before %q was to be seen: %w", what, err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q: %w", what, ctx.Err())
		}
	}
	return nil
}

func (s *seat) shoot(caption string, shown time.Duration) shot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shot{s.terminal.frame(), "ringmaster up – " + caption, shown}
}

// scene is something to wait for, what to do then, and what it is called.
type scene struct {
	sees, press, caption string
	shown                time.Duration
}

// play is the story that the picture tells: all is well; an instance is killed; the others have its
// websites; it is back; and there are more of them.
func (s *seat) play(ctx context.Context) ([]shot, error) {
	const glance, look = 1200 * time.Millisecond, 3500 * time.Millisecond
	var shots []shot
	scenes := []scene{
		{`3 of 3 shards ready · 60 websites, 60 ready`, "2", "all is well", look},
		{`› 2 webhosting-operator-1 running`, "k", "an instance is selected, and killed", glance},
		{`down, 20s left +ready`, "", "it is down, and nobody knows yet", look},
		{`down, \ds left +expired`, "", "its Lease has run out", look},
		{`down, \ds left +dead(.*\n)+Moves  [1-9]`, "", "its websites go to the others", look},
		{`down, \ds left +dead .* 0 +killed`, "", "all websites are looked after again", look},
		{`on the move\n(.*\n)+.*operator-1 running +ready`, "", "it is started again; the others let go of what is its", glance},
		{`operator-1 running +ready .* 1 +[1-9]\d* █`, "", "it gets its share back", look},
		{`3 of 3 shards ready · 60 websites, 60 ready\n(.*\n)+.*operator-1 .* 2\d █`, "+", "all is well again", look},
		{`4 of 4 shards ready(.*\n)+.*operator-3 running +ready .* 0 +[1-9]\d* █`, "", "a fourth instance gets its share from all others", look},
		{`4 of 4 shards ready · 60 websites, 60 ready\n(.*\n)+.*operator-3 running +ready .* 1\d █`, "", "and all others keep theirs", look},
	}
	for i, scene := range scenes {
		// What passes quickly may be missed when the machine is busy.
		next := scenes[min(i+1, len(scenes)-1)].sees
		if err := s.see(ctx, scene.sees+"|"+next); err != nil {
			return nil, err
		}
		if scene.press == "" && !s.sees(scene.sees) {
			continue
		}
		shots = append(shots, s.shoot(scene.caption, scene.shown))
		if _, err := s.Person.WriteString(scene.press); err != nil {
			return nil, err
		}
	}
	return shots, nil
}

// leave presses Ctrl-C and waits for the end.
func (s *seat) leave() error {
	defer s.Close()
	const limit = time.Minute
	if _, err := s.Person.WriteString("\x03"); err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		return err
	case <-time.After(limit):
		return errors.Join(errors.New("ringmaster does not end"), s.cmd.Process.Kill())
	}
}
