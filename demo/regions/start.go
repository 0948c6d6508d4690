package regions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/balancer"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/writer"
	etcdcluster "github.com/ringmaster-project/ringmaster/examples/etcdcluster/config"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

func (d *Demo) start(ctx context.Context) (err error) {
	if d.Stage, err = cluster.New(d.options.Options); err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it took longer than %s", startLimit))
	defer cancel()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"installing the kind of resource", d.installKind},
		{"installing namespaces and roles of three regions", d.installRegions},
		{"pretending a node", d.pretendNode},
		{"starting an agent in each region", d.startAgents},
		{"starting an operator in each region", d.startOperators},
		{"looking at the cluster", d.look},
		{"creating the first region, which starts the system", d.createFirst},
		{"creating the other regions, which join it", d.createOthers},
	} {
		d.options.Report(step.what)
		if err := step.do(starting); err != nil {
			return err
		}
	}
	return d.awaitMembers(ctx)
}

func (d *Demo) installKind(ctx context.Context) error {
	kinds, err := manifest.Read(etcdcluster.Files, "crds")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	return d.InstallKinds(ctx, kinds...)
}

// installRegions makes the namespaces, and in each the ServiceAccount of its operator and what that may do.
func (d *Demo) installRegions(ctx context.Context) error {
	for _, region := range names {
		spaces, err := manifest.Read(etcdcluster.Files, "samples/"+region+"/namespace.yaml")
		if err != nil {
			return fmt.Errorf("reading the example's manifests: %w", err)
		}
		roles, err := manifest.Read(etcdcluster.Files, "rbac")
		if err != nil {
			return fmt.Errorf("reading the example's manifests: %w", err)
		}
		for _, object := range roles {
			object.SetNamespace(region)
			if subjects, is := object.Object["subjects"].([]any); is {
				for _, subject := range subjects {
					subject.(map[string]any)["namespace"] = region
				}
			}
		}
		if err := d.Install(ctx, "the region "+region, append(spaces, roles...)...); err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) pretendNode(context.Context) (err error) {
	if d.node, err = d.PretendNode(d.process, d.tell); err != nil {
		return err
	}
	d.background.Go(func() { d.node.Run(d.ctx) })
	return nil
}

// process is what the node says of a Pod that is a process.
func (d *Demo) process(namespace, name string) (process fakenode.Process, is bool) {
	for _, member := range d.operators.Members() {
		if member.Name == name && name == operatorOf(namespace) {
			return cluster.Process(member), true
		}
	}
	return fakenode.Process{}, false
}

func operatorOf(region string) string { return region + "-operator" }
func agentOf(region string) string    { return region + "-agent" }

// startAgents starts those that run the members. The cluster does not know them: they need nothing of it.
func (d *Demo) startAgents(context.Context) error {
	for _, region := range names {
		port, err := process.ReservePort("127.0.0.1")
		if err != nil {
			return err
		}
		d.ports = append(d.ports, port)
		d.addresses[region] = "127.0.0.1:" + strconv.Itoa(port.Number)
	}
	for _, region := range names {
		if err := os.MkdirAll(d.data(region), 0o700); err != nil {
			return fmt.Errorf("making a folder for the members of %s: %w", region, err)
		}
		secured, err := certify(filepath.Join(d.Dir, "regions", "pki"), region, time.Now())
		if err != nil {
			return fmt.Errorf("making the certificate for the members of %s: %w", region, err)
		}
		err = d.add(d.agents, cluster.Job{Name: agentOf(region), Program: agent, Args: append([]string{
			"--region=" + region, "--address=" + d.addresses[region], "--dir=" + d.data(region), "--etcd=" + d.options.Etcd,
		}, secured...)})
		if err != nil {
			return err
		}
	}
	return nil
}

// certify makes the certificate with which the members of a region talk to those of the others, and returns the agent's flags for
// it. The authority is kept with the demo's data, and made if there is none.
func certify(folder, region string, now time.Time) ([]string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	authority, err := pki.Open(folder, now)
	if err != nil {
		return nil, err
	}
	pair, err := authority.Issue(pki.Identity{User: region, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, region)
	return []string{
		"--peer-cert=" + path + ".crt", "--peer-key=" + path + ".key", "--peer-ca=" + filepath.Join(folder, "ca.crt"),
	}, pair.Write(path)
}

// data is the folder of a region's members.
func (d *Demo) data(region string) string { return filepath.Join(d.Dir, "regions", region) }

func (d *Demo) startOperators(context.Context) error {
	for _, region := range names {
		err := d.add(d.operators, cluster.Job{
			Name: operatorOf(region), Namespace: region, Account: account, Program: program, Args: []string{
				"--namespace=" + region, "--name=" + operatorOf(region), "--agent=http://" + d.addresses[region],
				"--session-duration=" + session.String(), "--health-address=0", "--metrics-address=0",
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) add(to *supervisor.Crew, job cluster.Job) error {
	if err := d.ForgetLogs(job.Name); err != nil {
		return err
	}
	if err := d.MakeFolder(job.Name); err != nil {
		return err
	}
	return to.Add(d.Program(job))
}

// look begins to watch, and opens the one address for all members.
func (d *Demo) look(ctx context.Context) (err error) {
	if err := d.watch(ctx); err != nil {
		return err
	}
	if d.front, err = balancer.Start(d.voters); err != nil {
		return err
	}
	d.hints = d.options.Hints(d.Endpoint())
	d.background.Go(func() { d.pollAgents(d.ctx) })
	return nil
}

// createFirst also waits until the first member is there: the others have to know where it is.
func (d *Demo) createFirst(ctx context.Context) error {
	if err := d.create(ctx, names[0], ""); err != nil {
		return err
	}
	return cluster.Until(ctx, "the first member", func(context.Context) (bool, error) {
		return len(d.voters()) > 0, nil
	})
}

func (d *Demo) createOthers(ctx context.Context) error {
	seed := "http://" + d.voters()[0]
	for _, region := range names[1:] {
		if err := d.create(ctx, region, seed); err != nil {
			return err
		}
	}
	var err error
	if d.clients, err = writer.Start(d.ctx, writer.Options{Endpoints: d.urls, Tell: d.tell, Changed: d.change}); err != nil {
		return err
	}
	d.background.Go(d.clients.Wait)
	d.background.Go(func() { followAgreement(d.ctx, d.Endpoint(), d.system, d.agreed) })
	return nil
}

// awaitMembers waits until all regions have what they want. One that somebody has spoilt, maybe in an earlier run, is
// no reason to show nothing.
func (d *Demo) awaitMembers(ctx context.Context) error {
	d.options.Report("waiting for all members to vote")
	waiting, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	began := time.Now()
	err := cluster.Until(waiting, "all members to vote", func(context.Context) (bool, error) { return d.State().Settled(), nil })
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		d.options.Report("going on, though not every region has what it wants after " + time.Since(began).Round(time.Second).String())
	}
	return nil
}
