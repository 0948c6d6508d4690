//go:build !without_kubelet

package main

import (
	"context"

	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func init() {
	programs["kubelet"] = daemon(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) })
}
