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
	"github.com/ringmaster-project/ringmaster/demo/writeprobe"
	etcdcluster "github.com/ringmaster-project/ringmaster/examples/etcdcluster/config"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

func (d *Demo) start(ctx context.Context) (err error) {
	if d.Cluster, err = cluster.New(d.options.Options); err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the start took longer than %s", startLimit))
	defer cancel()
	for _, step := range []struct {
		description string
		do          func(context.Context) error
	}{
		{"installing CustomResourceDefinitions", d.installKind},
		{"installing namespaces and roles of three regions", d.installRegions},
		{"starting a fake node", d.startNode},
		{"starting an agent in each region", d.startAgents},
		{"starting an operator in each region", d.startOperators},
		{"watching the cluster", d.startObserving},
		{"creating the EtcdCluster of the first region, which bootstraps the system", d.createFirst},
		{"creating the EtcdClusters of the other regions, which join it", d.createOthers},
	} {
		d.options.Report(step.description)
		if err := step.do(starting); err != nil {
			return err
		}
	}
	return d.waitForMembers(ctx)
}

func (d *Demo) installKind(ctx context.Context) error {
	kinds, err := manifest.Read(etcdcluster.Files, "crds")
	if err != nil {
		return fmt.Errorf("reading the example's manifests: %w", err)
	}
	return d.InstallKinds(ctx, kinds...)
}

// installRegions creates the namespaces of the regions, and in each the ServiceAccount and roles of
// its operator.
func (d *Demo) installRegions(ctx context.Context) error {
	for _, region := range regionNames {
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
			if subjects, ok := object.Object["subjects"].([]any); ok {
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

func (d *Demo) startNode(context.Context) (err error) {
	if d.node, err = d.NewFakeNode(d.process, d.recordEvent); err != nil {
		return err
	}
	d.background.Go(func() { d.node.Run(d.ctx) })
	return nil
}

// process returns the process that a Pod stands for.
func (d *Demo) process(namespace, name string) (process fakenode.Process, found bool) {
	for _, status := range d.operators.Processes() {
		if status.Name == name && name == operatorOf(namespace) {
			return cluster.PodProcess(status), true
		}
	}
	return fakenode.Process{}, false
}

func operatorOf(region string) string { return region + "-operator" }
func agentOf(region string) string    { return region + "-agent" }

// startAgents starts the agents, which run the members. They have no access to the cluster.
func (d *Demo) startAgents(context.Context) error {
	for _, region := range regionNames {
		port, err := process.ReservePort("127.0.0.1")
		if err != nil {
			return err
		}
		d.ports = append(d.ports, port)
		d.addresses[region] = "127.0.0.1:" + strconv.Itoa(port.Number)
	}
	for _, region := range regionNames {
		if err := os.MkdirAll(d.membersDir(region), 0o700); err != nil {
			return fmt.Errorf("creating a folder for the members of %s: %w", region, err)
		}
		tlsFlags, err := issueCertificate(filepath.Join(d.Dir, "regions", "pki"), region, time.Now())
		if err != nil {
			return fmt.Errorf("issuing the certificate for the members of %s: %w", region, err)
		}
		err = d.add(d.agents, cluster.ProcessSpec{Name: agentOf(region), Program: agent, Args: append([]string{
			"--region=" + region, "--address=" + d.addresses[region], "--dir=" + d.membersDir(region), "--etcd=" + d.options.Etcd,
		}, tlsFlags...)})
		if err != nil {
			return err
		}
	}
	return nil
}

// issueCertificate issues the peer certificate for the members of a region, and returns the flags
// of the agent for it. The certificate authority is created if it does not exist, and kept with the
// data of the demo.
func issueCertificate(folder, region string, now time.Time) ([]string, error) {
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

// membersDir returns the folder of the members of a region.
func (d *Demo) membersDir(region string) string { return filepath.Join(d.Dir, "regions", region) }

func (d *Demo) startOperators(context.Context) error {
	for _, region := range regionNames {
		err := d.add(d.operators, cluster.ProcessSpec{
			Name: operatorOf(region), Namespace: region, Account: account, Program: program, Args: []string{
				"--namespace=" + region, "--name=" + operatorOf(region), "--agent=http://" + d.addresses[region],
				"--session-duration=" + sessionDuration.String(), "--health-address=0", "--metrics-address=0",
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Demo) add(to *supervisor.Supervisor, spec cluster.ProcessSpec) error {
	if err := d.RemoveLogs(spec.Name); err != nil {
		return err
	}
	if err := d.CreateDir(spec.Name); err != nil {
		return err
	}
	return to.Add(d.Program(spec))
}

// startObserving starts the watches and the load balancer for all members.
func (d *Demo) startObserving(ctx context.Context) (err error) {
	if err := d.watch(ctx); err != nil {
		return err
	}
	if d.loadBalancer, err = balancer.Start(d.voters); err != nil {
		return err
	}
	d.hints = d.options.Hints(d.Endpoint())
	d.background.Go(func() { d.pollAgents(d.ctx) })
	return nil
}

// createFirst creates the first region, and waits for its first member, whose address the other
// regions need.
func (d *Demo) createFirst(ctx context.Context) error {
	if err := d.create(ctx, regionNames[0], ""); err != nil {
		return err
	}
	return cluster.WaitFor(ctx, "the first member", func(context.Context) (bool, error) {
		return len(d.voters()) > 0, nil
	})
}

func (d *Demo) createOthers(ctx context.Context) error {
	seed := "http://" + d.voters()[0]
	for _, region := range regionNames[1:] {
		if err := d.create(ctx, region, seed); err != nil {
			return err
		}
	}
	var err error
	if d.probe, err = writeprobe.Start(d.ctx, writeprobe.Options{Endpoints: d.urls, Report: d.recordEvent, Changed: d.change}); err != nil {
		return err
	}
	d.background.Go(d.probe.Wait)
	d.background.Go(func() { followCoordination(d.ctx, d.Endpoint(), d.system, d.setCoordination) })
	return nil
}

// waitForMembers waits until all regions are reconciled. If a region is not, maybe since an earlier
// run, it reports that and returns nil.
func (d *Demo) waitForMembers(ctx context.Context) error {
	d.options.Report("waiting for all members to vote")
	waiting, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	startedAt := time.Now()
	err := cluster.WaitFor(waiting, "all members to vote", func(context.Context) (bool, error) {
		state := d.State()
		return state.AllReconciled(), nil
	})
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		d.options.Report("continuing, although not every region is reconciled after " + time.Since(startedAt).Round(time.Second).String())
	}
	return nil
}
