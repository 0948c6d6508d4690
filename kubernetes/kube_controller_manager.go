//go:build !without_kube_controller_manager

package main

import controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

func init() {
	programs["kube-controller-manager"] = daemon(controllermanager.NewControllerManagerCommand)
}
