package webhosting

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// maxInstances is a limit that one machine can run.
const maxInstances = 32

// List returns the status of all processes.
func (d *Demo) List() []control.Process { return append(d.instances.List(), d.sharders.List()...) }

// Do carries out a command, and returns a message about the result.
func (d *Demo) Do(ctx context.Context, request control.Request, progress func(string)) (string, error) {
	switch request.Command {
	case control.Scale:
		return d.scale(request.Count)
	case control.Websites:
		return d.createWebsites(ctx, request.Count, progress)
	case control.Restart, control.Replace:
		return "", fmt.Errorf("'%s' is only available with --example etcdcluster", request.Command)
	}
	owner, err := d.supervisorOf(request.Name)
	if err != nil {
		return "", err
	}
	return owner.Do(request)
}

// supervisorOf returns the supervisor of a process.
func (d *Demo) supervisorOf(name string) (*supervisor.Supervisor, error) {
	instances, sharders := d.instances.Names(), d.sharders.Names()
	switch {
	case slices.Contains(instances, name):
		return d.instances, nil
	case slices.Contains(sharders, name):
		return d.sharders, nil
	}
	return nil, supervisor.NotFoundError(name, append(instances, sharders...))
}

// scale runs instances 0 to n-1, and removes all others.
func (d *Demo) scale(n int) (string, error) {
	if n < 0 || n > maxInstances {
		return "", fmt.Errorf("%d instances are out of range: choose 0 to %d", n, maxInstances)
	}
	wanted := map[string]bool{}
	for number := range n {
		name := InstanceName(number)
		wanted[name] = true
		if !slices.Contains(d.instances.Names(), name) {
			if err := d.CreateDir(name); err != nil {
				return "", err
			}
		}
		if err := d.instances.Add(d.instance(number)); err != nil {
			return "", err
		}
	}
	for _, name := range d.instances.Names() {
		if !wanted[name] {
			if err := d.instances.Remove(name); err != nil {
				return "", err
			}
		}
	}
	return "Scaled to " + prose.Count(n, "instance") + ".", nil
}

func (d *Demo) createWebsites(ctx context.Context, wanted int, progress func(string)) (string, error) {
	if wanted < 0 || wanted > maxWebsites {
		return "", fmt.Errorf("%d websites are out of range: choose 0 to %d", wanted, maxWebsites)
	}
	created, err := d.websites(ctx, wanted, progress)
	if err != nil {
		return "", err
	}
	if created == 0 {
		return fmt.Sprintf("Created no website: %d exist already.", len(d.observer.Objects())), nil
	}
	return "Created " + prose.Count(created, d.example.object) + ".", nil
}
