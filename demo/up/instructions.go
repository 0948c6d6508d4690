package up

import (
	"fmt"
	"path/filepath"
	"strings"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/webhosting"
)

// websiteHints returns the hints of the webhosting example.
func (r *run) websiteHints(pages string) view.Hints {
	instance := webhosting.InstanceName(max(0, min(1, r.Shards-1)))
	return view.Hints{Pages: pages, Setup: r.setupCommand(), Suggestions: websiteSuggestions(r.Mode, instance, r.dataDirFlag())}
}

// websiteSuggestions returns commands to try. Kill comes after scale, which would restart a killed
// instance at once.
func websiteSuggestions(mode, instance, dataDirFlag string) []view.Suggestion {
	theme := view.Suggestion{Command: `kubectl patch theme exciting --type=merge -p '{"spec":{"color":"orange"}}'`, Description: "reload a website of that theme"}
	websites := view.Suggestion{Command: "ringmaster demo websites 500" + dataDirFlag, Description: "create more websites"}
	if mode == view.ModeLead {
		return []view.Suggestion{
			{Command: "kubectl get websites -A", Description: "one instance reconciles all of them"},
			theme,
			{Command: "ringmaster demo scale 5" + dataDirFlag, Description: "more standby instances"},
			{Command: "ringmaster demo stop " + instance + dataDirFlag, Description: "if it leads, a standby takes over at once"},
			{Command: "ringmaster demo kill " + instance + dataDirFlag, Description: "if it leads: failover when its Lease has expired"},
			websites,
		}
	}
	return []view.Suggestion{
		{Command: "kubectl get websites -A -L " + shardingv1alpha1.LabelShard(webhosting.Ring), Description: "the shard of each website"},
		theme,
		{Command: "ringmaster demo scale 5" + dataDirFlag, Description: "the new instances get a share, the rest does not move"},
		{Command: "ringmaster demo kill " + instance + dataDirFlag, Description: "its websites move when its Lease has expired"},
		{Command: "ringmaster demo pause " + instance + dataDirFlag, Description: "as kill; after 'resume' it finds its Lease lost, and exits"},
		websites,
	}
}

// regionHints returns the hints of the etcdcluster example.
func (r *run) regionHints(string) view.Hints {
	flag := r.dataDirFlag()
	restart, kill := "one operator restarts all members, the leader last", "another operator continues at the same step"
	if r.Mode == view.ModeLocal {
		restart, kill = "each operator restarts its own members, one at a time", "the others wait until its session has expired"
	}
	return view.Hints{Setup: r.setupCommand(), Suggestions: []view.Suggestion{
		{Command: "ringmaster coordination status --watch", Description: "participants, pending actions, the lock and the plan"},
		{Command: "kubectl get etcdclusters -A -o wide", Description: "the regions"},
		{Command: "ringmaster demo restart" + flag, Description: "change an argument in all regions: " + restart},
		{Command: "ringmaster demo replace" + flag, Description: "replace a member of every region"},
		{Command: "ringmaster demo kill dc1-operator" + flag, Description: "during a restart: " + kill},
		{Command: "ringmaster demo pause dc2-operator" + flag, Description: "during a restart: the others wait for it until 'resume'"},
		{
			Command:     `kubectl patch etcdcluster orders -n dc3 --type=merge -p '{"spec":{"args":{"snapshot-count":"5000"}}}'`,
			Description: "a change in one region only",
		},
	}}
}

// dataDirFlag returns the flag with which the commands of the demo find this one, or nothing if
// they find it without.
func (r *run) dataDirFlag() string {
	if r.DataDir == "" {
		return ""
	}
	return " --data-dir " + quote(r.folder.path)
}

// setupCommand returns the command that prepares another terminal.
func (r *run) setupCommand() string { return ". " + quote(filepath.Join(r.folder.path, envFile)) }

// dataNotice says what happens to the data.
func (r *run) dataNotice() string {
	if r.folder.temporary {
		return "deleted at the end; keep it with --data-dir"
	}
	return "kept for the next run"
}

// printInstructions prints the addresses of the demo, and commands to try.
func (r *run) printInstructions() error {
	hints := r.example.hints()
	var suggestions strings.Builder
	for _, suggestion := range hints.Suggestions {
		fmt.Fprintf(&suggestions, "  # %s\n  %s\n", suggestion.Description, suggestion.Command)
	}
	_, err := fmt.Fprintf(r.Out, `
Kubernetes %s is up at %s.
Its data is in %s (%s).
%s

In another terminal:

  %s
%s
Press Ctrl-C to stop everything.
`, r.kubernetes, r.plane.URL(), r.folder.path, r.dataNotice(), r.example.about(), hints.Setup, suggestions.String())
	return err
}

// printBareInstructions does the same for a control plane without an example.
func (r *run) printBareInstructions() error {
	_, err := fmt.Fprintf(r.Out, `
Kubernetes %s is up at %s.
Its data is in %s (%s).
It has no node, so Pods stay Pending.

In another terminal:

  %s
  kubectl version
  kubectl create deployment hello --image=hello
  kubectl get deployments,replicasets -A

Press Ctrl-C to stop everything.
`, r.kubernetes, r.plane.URL(), r.folder.path, r.dataNotice(), r.setupCommand())
	return err
}

// quote quotes a path for a shell, if necessary.
func quote(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=@%:", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
