package supervisor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// Do carries out a request about one process, and returns a message about the result.
func (s *Supervisor) Do(request control.Request) (string, error) {
	switch name := request.Name; request.Command {
	case control.Kill:
		return s.killWithMessage(name, request.Away)
	case control.Stop:
		return messageOrError(s.Stop(name), "Asked %s to stop. It stays stopped until %s.", name, s.resumeHint())
	case control.Pause:
		return messageOrError(s.Pause(name), "Paused %s. Resume it with 'resume'.", name)
	case control.Resume:
		return messageOrError(s.Resume(name), "Resumed %s.", name)
	}
	return "", fmt.Errorf("unknown command %q: run the 'ringmaster' program that the demo was started with", request.Command)
}

func messageOrError(err error, format string, args ...any) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

func (s *Supervisor) killWithMessage(name string, restartAfter time.Duration) (string, error) {
	err := s.Kill(name, restartAfter)
	for _, process := range s.Processes() {
		if process.Name == name && process.KeepRunning {
			return messageOrError(err, "Killed %s. It restarts in %s.", name, restartAfter)
		}
	}
	return messageOrError(err, "Killed %s, which was stopping. It stays stopped until %s.", name, s.resumeHint())
}

// resumeHint names the commands that start a stopped process.
func (s *Supervisor) resumeHint() string { return cmp.Or(s.options.ResumeHint, "'resume'") }
