//go:build !without_kube_scheduler

package main

import (
	"github.com/spf13/cobra"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func init() {
	programs["kube-scheduler"] = daemon(func() *cobra.Command { return scheduler.NewSchedulerCommand() })
}
