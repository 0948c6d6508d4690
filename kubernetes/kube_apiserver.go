//go:build !without_kube_apiserver

package main

import apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

func init() { programs["kube-apiserver"] = daemon(apiserver.NewAPIServerCommand) }
