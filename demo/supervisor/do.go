package supervisor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/control"
)

// Do does to a process what somebody asks for, and returns what came of it.
func (c *Crew) Do(request control.Request) (string, error) {
	switch name := request.Name; request.Command {
	case control.Kill:
		return c.kill(name, request.Away)
	case control.Stop:
		return done(c.Stop(name), "Asked %s to stop. It stays away until %s.", name, c.back())
	case control.Pause:
		return done(c.Pause(name), "Paused %s. It goes on with 'resume'.", name)
	case control.Resume:
		return done(c.Resume(name), "%s goes on.", name)
	}
	return "", fmt.Errorf("there is no command %q; is this 'ringmaster' the same version as the one that is up?", request.Command)
}

// done says what was done, unless it was not.
func done(err error, format string, args ...any) (string, error) {
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(format, args...), nil
}

func (c *Crew) kill(name string, away time.Duration) (string, error) {
	err := c.Kill(name, away)
	for _, member := range c.Members() {
		if member.Name == name && member.Wanted {
			return done(err, "Killed %s. It is started again in %s.", name, away)
		}
	}
	return done(err, "Killed %s, which was about to stop. It stays away until %s.", name, c.back())
}

// back is what starts a process that was stopped.
func (c *Crew) back() string { return cmp.Or(c.options.Back, "'resume'") }
