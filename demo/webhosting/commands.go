package webhosting

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// mostInstances is what one machine bears.
const mostInstances = 32

// Do does what somebody asks for, and returns what came of it.
func (d *Demo) Do(ctx context.Context, request control.Request, say func(string)) (string, error) {
	switch request.Command {
	case control.Scale:
		return d.scale(request.Count)
	case control.Websites:
		return d.moreWebsites(ctx, request.Count, say)
	case control.Restart, control.Replace:
		return "", fmt.Errorf("%s is for the example etcdcluster, and this is webhosting", request.Command)
	}
	processes, err := d.crewOf(request.Name)
	if err != nil {
		return "", err
	}
	return processes.Do(request)
}

// crewOf finds who looks after a process.
func (d *Demo) crewOf(name string) (*supervisor.Crew, error) {
	instances, sharders := d.instances.Names(), d.sharders.Names()
	switch {
	case slices.Contains(instances, name):
		return d.instances, nil
	case slices.Contains(sharders, name):
		return d.sharders, nil
	}
	return nil, fmt.Errorf("there is no %q; there are: %s", name, strings.Join(append(instances, sharders...), ", "))
}

// scale makes instances 0 to n-1 run, and no others.
func (d *Demo) scale(n int) (string, error) {
	if n < 0 || n > mostInstances {
		return "", fmt.Errorf("%d instances cannot be run: choose from 0 to %d", n, mostInstances)
	}
	wanted := map[string]bool{}
	for number := range n {
		name := InstanceName(number)
		wanted[name] = true
		if !slices.Contains(d.instances.Names(), name) {
			if err := d.MakeFolder(name); err != nil {
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
	return "Wanted: " + prose.Count(n, "instance") + ".", nil
}

func (d *Demo) moreWebsites(ctx context.Context, wanted int, say func(string)) (string, error) {
	if wanted < 0 || wanted > mostWebsites {
		return "", fmt.Errorf("%d websites are too many for one machine: choose up to %d", wanted, mostWebsites)
	}
	created, err := d.websites(ctx, wanted, say)
	if err != nil {
		return "", err
	}
	if created == 0 {
		return fmt.Sprintf("None was created: there are %d already.", len(d.scene.Objects())), nil
	}
	return "Created " + prose.Count(created, d.example.object) + ".", nil
}
