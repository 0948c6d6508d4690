package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// get sends requests to a URL, and prints each answer on a line. It returns the first failure after an
// answer, so that the phase of a pod that never restarts shows whether a request failed.
func get(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hello get", flag.ContinueOnError)
	count := flags.Int("n", 1, "number of requests; 0 for requests until SIGTERM")
	pause := flags.Duration("every", 20*time.Millisecond, "time between two requests")
	startupTimeout := flags.Duration("startup-timeout", 0,
		"timeout of the first answer: a Service works some time after its pods are ready")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("usage: hello get [-n COUNT] [-every DURATION] [-startup-timeout DURATION] URL")
	}

	client := &http.Client{
		Timeout: 5 * time.Second,
		// A Service balances connections, not requests.
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	answers, deadline := 0, time.Now().Add(*startupTimeout)
	for ; ctx.Err() == nil && (*count == 0 || answers < *count); sleep(ctx, *pause) {
		// Without ctx, so that a request that has begun is finished.
		body, err := fetch(client, flags.Arg(0))
		switch {
		case err == nil:
			fmt.Println(body)
			answers++
		case answers > 0 || time.Now().After(deadline):
			return fmt.Errorf("after %d answers: %w", answers, err)
		}
	}
	fmt.Fprintf(os.Stderr, "%d answers, and no request failed after the first\n", answers)
	return nil
}

func fetch(client *http.Client, url string) (string, error) {
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	body := strings.TrimSpace(string(content))
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return body, nil
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
