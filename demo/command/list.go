package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/up"
)

func newList() *cobra.Command {
	dir, output := "", ""
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the processes of the demo",
		Long: `List the processes of the running demo: the instances of the operator and the replicas of the sharder, or
the operators and agents of the etcd cluster. The names are those that 'kill', 'stop', 'pause' and
'resume' take.`,
		Example: `  # List all processes
  ringmaster demo list

  # Print their status as JSON
  ringmaster demo list -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return usage.SeeHelp(command, fmt.Errorf("unknown output format %q (available: json)", output))
			}
			found, err := up.Find(dir)
			if err != nil {
				return err
			}
			processes, err := control.Processes(command.Context(), found.Socket)
			if err != nil {
				return err
			}
			if output == "json" {
				return writeJSON(command.OutOrStdout(), processes)
			}
			return writeTable(command.OutOrStdout(), processes, time.Now())
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "", "output format: json (default: a table)")
	addDataDir(command, &dir)
	return command
}

func writeJSON(out io.Writer, processes []control.Process) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Processes []control.Process `json:"processes"`
	}{processes})
}

func writeTable(out io.Writer, processes []control.Process, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tPID\tRESTARTS\tAGE\tLAST EXIT")
	for _, process := range processes {
		pid := "-"
		if process.PID != 0 {
			pid = strconv.Itoa(process.PID)
		}
		lastExit := process.LastExit
		if process.RestartAt != nil {
			lastExit += "; restarts in " + duration.HumanDuration(max(0, process.RestartAt.Sub(now)))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", process.Name, process.State, pid, process.Restarts,
			duration.HumanDuration(max(0, now.Sub(process.Since))), lastExit)
	}
	return table.Flush()
}
