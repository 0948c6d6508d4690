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

// State is how everything is now.
func (d *Demo) State() view.Regions {
	state := view.Regions{Now: time.Now(), Up: d.began, Kubernetes: d.Kubernetes, Mode: d.options.Mode, Hints: d.hints}
	clusters, err := d.clusters(d.ctx)
	if err != nil {
		clusters = nil // it is ending
	}
	leader := ""
	if d.clients != nil {
		state.Clients, leader = d.clients.Counts()
	}
	d.mu.Lock()
	state.Agreement = d.agreement
	state.Events = slices.Clone(d.events)
	processes := d.processes
	d.mu.Unlock()
	for _, name := range names {
		region := view.Region{
			Name: name, Operator: show(d.operators.Members(), operatorOf(name)), Agent: show(d.agents.Members(), agentOf(name)),
		}
		for i := range clusters {
			if clusters[i].GetNamespace() == name {
				state.System = clusters[i].GetName()
				read(&region, &clusters[i], processes, leader)
			}
		}
		doubt(&region)
		state.Regions = append(state.Regions, region)
	}
	return state
}

// unknown is the phase of a member of which nobody can tell anything.
const unknown = "Unknown"

// doubt takes back what was said of members whose agent is not there: they have ended with it.
func doubt(region *view.Region) {
	if region.Agent.PID != 0 {
		return
	}
	region.Ready, region.Settled = 0, false
	for i := range region.Members {
		m := &region.Members[i]
		m.Phase, m.Healthy, m.Leader, m.PID = unknown, false, false, 0
	}
}

// show is a process as people see it.
func show(members []supervisor.Member, name string) view.Instance {
	for _, m := range members {
		if m.Name == name {
			return view.Instance{
				Name: m.Name, Process: string(m.Phase), PID: m.PID, Since: m.Since, Restarts: m.Restarts, Note: m.Note, Again: m.Again,
			}
		}
	}
	return view.Instance{Name: name}
}

// read takes what counts from the EtcdCluster of a region.
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
	region.Wanted, region.Ready = int(number("spec", "members")), int(number("status", "ready"))
	region.Settled = number("status", "observedGeneration") == cluster.GetGeneration() &&
		condition(cluster, "Ready") == "True" && condition(cluster, "Progressing") == "False"
	members, _, _ := unstructured.NestedSlice(cluster.Object, "status", "members")
	for _, entry := range members {
		if fields, is := entry.(map[string]any); is {
			region.Members = append(region.Members, readMember(fields, processes, leader))
		}
	}
}

func readMember(fields map[string]any, processes map[string]member, leader string) view.Member {
	text := func(name string) string { value, _ := fields[name].(string); return value }
	is := func(name string) bool { value, _ := fields[name].(bool); return value }
	m := view.Member{
		ID: text("id"), Phase: text("phase"), Healthy: is("healthy"), Leader: is("leader"),
		ArgsCurrent: is("argsCurrent"), Removing: is("removing"),
	}
	if leader != "" { // which is newer
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
		if fields, is := entry.(map[string]any); is && fields["type"] == kind {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}

// urls are where clients reach the members that count.
func (d *Demo) urls() []string {
	clusters, err := d.clusters(context.WithoutCancel(d.ctx))
	if err != nil {
		return nil
	}
	var well, others []string
	for i := range clusters {
		members, _, _ := unstructured.NestedSlice(clusters[i].Object, "status", "members")
		for _, entry := range members {
			fields, is := entry.(map[string]any)
			url, _ := fields["clientURL"].(string)
			if !is || url == "" || fields["phase"] != "Voter" {
				continue
			}
			if fields["healthy"] == true {
				well = append(well, url)
			} else {
				others = append(others, url)
			}
		}
	}
	if len(well) == 0 {
		return others
	}
	return well
}

// voters are the addresses of the members that count.
func (d *Demo) voters() []string {
	urls := d.urls()
	for i := range urls {
		urls[i] = strings.TrimPrefix(urls[i], "http://")
	}
	return urls
}
