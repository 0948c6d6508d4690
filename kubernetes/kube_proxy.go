//go:build !without_kube_proxy

package main

import proxy "k8s.io/kubernetes/cmd/kube-proxy/app"

func init() { programs["kube-proxy"] = daemon(proxy.NewProxyCommand) }
