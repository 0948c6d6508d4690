package regions

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

// State returns the current state for the live view.
func (d *Demo) State() view.Regions {
	state := view.Regions{Now: time.Now(), StartedAt: d.startedAt, Kubernetes: d.Kubernetes, Mode: d.options.Mode, Hints: d.hints}
	clusters, err := d.clusters(d.ctx)
	if err != nil {
		clusters = nil // the demo is stopping
	}
	leader := ""
	if d.probe != nil {
		state.Clients, leader = d.probe.Counts()
	}
	d.mu.Lock()
	state.Coordination = d.coordinationState
	state.Events = slices.Clone(d.events)
	processes := d.processes
	d.mu.Unlock()
	for _, name := range regionNames {
		region := view.Region{
			Name: name, Operator: instanceOf(d.operators.Processes(), operatorOf(name)), Agent: instanceOf(d.agents.Processes(), agentOf(name)),
		}
		for i := range clusters {
			if clusters[i].GetNamespace() == name {
				state.System = clusters[i].GetName()
				read(&region, &clusters[i], processes, leader)
			}
		}
		clearIfAgentStopped(&region)
		state.Regions = append(state.Regions, region)
	}
	return state
}

// unknown is the phase of a member whose agent does not run.
const unknown = "Unknown"

// clearIfAgentStopped resets the state of members whose agent does not run, because they exited
// with it.
func clearIfAgentStopped(region *view.Region) {
	if region.Agent.PID != 0 {
		return
	}
	region.Ready, region.Reconciled = 0, false
	for i := range region.Members {
		m := &region.Members[i]
		m.Phase, m.Healthy, m.Leader, m.PID = unknown, false, false, 0
	}
}

// instanceOf returns the state of a process for the live view.
func instanceOf(processes []supervisor.ProcessStatus, name string) view.Instance {
	for _, m := range processes {
		if m.Name == name {
			return view.Instance{
				Name: m.Name, Process: string(m.Phase), PID: m.PID, Since: m.Since, Restarts: m.Restarts, Note: m.Note, RestartAt: m.RestartAt,
			}
		}
	}
	return view.Instance{Name: name}
}

// read adds the status of the EtcdCluster of a region.
func read(region *view.Region, cluster *unstructured.Unstructured, processes map[string]member, leader string) {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(cluster.Object, fields...)
		return value
	}
	number := func(fields ...string) int64 {
		value, _, _ := unstructured.NestedInt64(cluster.Object, fields...)
		return value
	}
	region.Mode = text("spec", "automationOptions", "synchronizationMode")
	region.Waiting = text("status", "waiting")
	region.Desired, region.Ready = int(number("spec", "members")), int(number("status", "ready"))
	region.Reconciled = number("status", "observedGeneration") == cluster.GetGeneration() &&
		condition(cluster, "Ready") == "True" && condition(cluster, "Progressing") == "False"
	members, _, _ := unstructured.NestedSlice(cluster.Object, "status", "members")
	for _, entry := range members {
		if fields, ok := entry.(map[string]any); ok {
			region.Members = append(region.Members, readMember(fields, processes, leader))
		}
	}
}

func readMember(fields map[string]any, processes map[string]member, leader string) view.Member {
	text := func(name string) string { value, _ := fields[name].(string); return value }
	flag := func(name string) bool { value, _ := fields[name].(bool); return value }
	m := view.Member{
		ID: text("id"), Phase: text("phase"), Healthy: flag("healthy"), Leader: flag("leader"),
		ArgsCurrent: flag("argsCurrent"), Removing: flag("removing"),
	}
	if leader != "" { // newer than the status
		m.Leader = text("memberID") == leader
	}
	process, known := processes[m.ID]
	if !known {
		pid, _ := fields["pid"].(int64)
		m.PID = int(pid)
		return m
	}
	m.PID, m.Since = process.PID, process.Since
	var args []string
	for _, name := range slices.Sorted(maps.Keys(process.Applied)) {
		args = append(args, "--"+name+"="+process.Applied[name])
	}
	m.Args = strings.Join(args, " ")
	return m
}

func condition(cluster *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	for _, entry := range conditions {
		if fields, ok := entry.(map[string]any); ok && fields["type"] == kind {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}

// urls returns the client URLs of the healthy voting members, or of all voting members if none is
// healthy.
func (d *Demo) urls() []string {
	clusters, err := d.clusters(context.WithoutCancel(d.ctx))
	if err != nil {
		return nil
	}
	var healthy, unhealthy []string
	for i := range clusters {
		members, _, _ := unstructured.NestedSlice(clusters[i].Object, "status", "members")
		for _, entry := range members {
			fields, ok := entry.(map[string]any)
			url, _ := fields["clientURL"].(string)
			if !ok || url == "" || fields["phase"] != "Voter" {
				continue
			}
			if fields["healthy"] == true {
				healthy = append(healthy, url)
			} else {
				unhealthy = append(unhealthy, url)
			}
		}
	}
	if len(healthy) == 0 {
		return unhealthy
	}
	return healthy
}

// voters returns the addresses of the members of urls.
func (d *Demo) voters() []string {
	urls := d.urls()
	for i := range urls {
		urls[i] = strings.TrimPrefix(urls[i], "http://")
	}
	return urls
}
