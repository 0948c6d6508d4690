package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// account is the folder with the pod's token and the certificate authority of the API server.
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// whoAmI asks the API server for the user of this pod.
func whoAmI(ctx context.Context) (string, error) {
	host := os.Getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return "", errors.New("KUBERNETES_SERVICE_HOST is not set: run this in a pod")
	}
	url := "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
	return selfSubjectReview(ctx, url, account)
}

func selfSubjectReview(ctx context.Context, url, account string) (string, error) {
	token, err := os.ReadFile(filepath.Join(account, "token"))
	if err != nil {
		return "", err
	}
	authority, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return "", err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return "", fmt.Errorf("%s/ca.crt has no certificate", account)
	}

	const body = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	url += "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+string(token))
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, // it sends one request
	}
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	return reviewed(response)
}

// reviewed returns the user in the API server's answer.
func reviewed(response *http.Response) (string, error) {
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("the API server answers %s: %s", response.Status, content)
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.Unmarshal(content, &review); err != nil {
		return "", fmt.Errorf("reading the API server's answer: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
