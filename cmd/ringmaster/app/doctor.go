package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8svalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/doctor"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// notChecked makes doctor end with the exit code 2.
func notChecked(err error) error { return &exitError{err, exitNotChecked} }

// doctorCommand has the flags of doctor.
type doctorCommand struct {
	cluster
	doctor.Options
	sharderAccount string
	shardAccounts  []string
	format         doctor.Format
	colour         terminal.ColourMode
	timeout        time.Duration
	printRole      bool
}

func newDoctor() *cobra.Command {
	c := &doctorCommand{format: doctor.Text, colour: terminal.Auto}
	c.Now = time.Now
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check the rings of a cluster, and print each problem with the next step",
		Long: `Checks a cluster and prints a line for each check. The problems are listed below their
check, with the object, the cause and the next step:

    server       the version of Kubernetes
    crd          the CRD of ControllerRing: installed, served, with all fields
    sharder      a sharder leads, and only one for each ring; its pods run the same image
    permissions  missing permissions of the ServiceAccounts of the sharder and the shards
    webhooks     the webhook of each ring: its Service, endpoints and certificate, whether
                 API servers reach it, and configurations of rings that do not exist
    rings        available shards, and conditions that are not True
    resources    kinds of a ring that the API server does not serve, and selectors
                 that select no namespace
    kinds        the resources on which a ring and its shards disagree
    leases       Leases that the ring refuses, and Leases without a live shard
    clocks       Leases with times in the future

The result of a check is ok, warning, failure or unknown. Exit codes:

    0  no failures; there may be warnings, and checks that are unknown
    1  at least one failure
    2  the cluster could not be checked: it cannot be reached, nothing may be read, a ring
       that was named does not exist, or a flag is invalid

It changes nothing and never lists sharded objects. To find out whether an API server
reaches the webhooks, it creates an object for each ring with dry-run, which is not stored;
--probe=false disables that. The serving certificate is checked if you may read its Secret,
sharder-webhook-cert, or sharder-certificate with cert-manager.

A check is unknown if you may not read its objects, or if the API server refuses the object
that is created with dry-run. All other checks need only the read-only ClusterRole that
--print-role prints:

    controllerrings, mutatingwebhookconfigurations, namespaces, endpointslices   list
    leases, pods                                                                 get, list
    services, the CRD of ControllerRing                                          get
    subjectaccessreviews                                                         create`,
		Example: `  # check everything
  ringmaster doctor

  # check one ring
  ringmaster doctor --ring webhosting-operator

  # in a script: print the failures
  ringmaster doctor -o json | jq -r '.checks[].findings[]? | select(.status == "failure") | .object + ": " + .cause'

  # the shards run outside of the cluster, so their ServiceAccount cannot be found
  ringmaster doctor --shard-service-account webhosting-system/operator

  # let the group on-call check the cluster
  ringmaster doctor --print-role | kubectl apply -f -
  kubectl create clusterrolebinding doctor --clusterrole=sharding:doctor --group=on-call`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return notChecked(fmt.Errorf("unexpected argument %q: name a ring with --ring", args[0]))
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error { return c.run(command) },
	}
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error { return notChecked(usage.SeeHelp(command, err)) })
	c.addClusterFlags(command)
	flags := command.Flags()
	flags.StringSliceVar(&c.Rings, "ring", nil, "check only this ring; can be repeated")
	flags.VarP(&c.format, "output", "o", "text, json or yaml")
	flags.Var(&c.colour, "color", "auto, always or never")
	flags.DurationVar(&c.timeout, "timeout", 30*time.Second, "maximum duration of all checks; a single request takes at most 10s")
	flags.BoolVar(&c.Probe, "probe", true, "check that API servers reach the webhooks, with a dry-run create for each ring")
	flags.StringVar(&c.SharderNamespace, "sharder-namespace", "sharding-system", "namespace of the external sharder")
	flags.StringVar(&c.sharderAccount, "sharder-service-account", "",
		"`NAMESPACE/NAME` of the ServiceAccount of the sharder (default: that of its pods)")
	flags.StringSliceVar(&c.shardAccounts, "shard-service-account", nil,
		"`NAMESPACE/NAME` of a ServiceAccount of shards; can be repeated (default: those of the pods that have the names of the Leases)")
	flags.BoolVar(&c.printRole, "print-role", false, "print the ClusterRole that the checks need, and exit")
	return command
}

func (c *doctorCommand) run(command *cobra.Command) error {
	if c.printRole {
		return writeYAML(command.OutOrStdout(), []runtime.Object{doctor.Role()})
	}
	if err := c.complete(); err != nil {
		return notChecked(usage.SeeHelp(command, err))
	}
	config, err := c.config()
	if err != nil {
		return notChecked(err)
	}
	ctx, cancel := context.WithTimeout(command.Context(), c.timeout)
	defer cancel()
	c.Program = command.Root().DisplayName()
	report, err := doctor.Run(ctx, config, c.Options)
	if err != nil {
		return notChecked(err)
	}
	out := command.OutOrStdout()
	if err := report.Write(out, c.format, c.colour.Colours(out)); err != nil {
		return notChecked(err)
	}
	if report.Status == doctor.Failure {
		return &exitError{fmt.Errorf("%s found", prose.Count(report.Summary.Failures, "failure")), 1}
	}
	return nil
}

// complete parses and validates the flags.
func (c *doctorCommand) complete() error {
	for _, name := range c.Rings {
		if problems := k8svalidation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Errorf("--ring %q: not a valid name: %s", name, strings.Join(problems, "; "))
		}
	}
	if c.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be positive", c.timeout)
	}
	if c.sharderAccount != "" {
		account, err := parseServiceAccount("--sharder-service-account", c.sharderAccount)
		if err != nil {
			return err
		}
		c.SharderAccount = &account
	}
	for _, text := range c.shardAccounts {
		account, err := parseServiceAccount("--shard-service-account", text)
		if err != nil {
			return err
		}
		c.ShardAccounts = append(c.ShardAccounts, account)
	}
	return nil
}

func parseServiceAccount(flag, text string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if len(k8svalidation.IsDNS1123Label(namespace)) > 0 || len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%s %q: must be NAMESPACE/NAME", flag, text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
