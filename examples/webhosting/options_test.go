package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string // a part of the error, or empty
		is   func(options) bool
	}{
		"defaults": {is: func(o options) bool {
			return o.shard.Mode == shard.ModeShard && o.shard.Ring == "webhosting-operator" && o.website.Concurrency == 15 &&
				o.website.Image == "nginx:stable" && o.shard.LeaseDuration == 15*time.Second
		}},
		"a mode":         {args: []string{"--mode=in-process"}, is: func(o options) bool { return o.shard.Mode == shard.ModeInProcess }},
		"no such mode":   {args: []string{"--mode=solo"}, want: "available: shard, in-process, sharder, lead, alone"},
		"no such flag":   {args: []string{"--solo"}, want: "see webhosting --help"},
		"no flag at all": {args: []string{"solo"}, want: "see webhosting --help"},
		"no workers":     {args: []string{"--concurrency=0"}, want: "at least 1"},
		"no time":        {args: []string{"--work-time=-1s"}, want: "0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o, err := parse(test.args, &out)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			case test.is != nil && !test.is(o):
				t.Errorf("got %+v", o)
			}
			if out.Len() > 0 {
				t.Errorf("unexpected output: %s", &out)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parse([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	for _, want := range []string{"alone", "kubectl apply -k", "-nginx-image", "-zap-log-level", "-kubeconfig"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, &out)
		}
	}
}

// TestDebugLogIsNotSampled logs more lines in a second than the sampling of controller-runtime
// keeps.
func TestDebugLogIsNotSampled(t *testing.T) {
	const n = 1000
	o, err := parse([]string{"--zap-log-level=debug"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o.log.DestWriter = &out
	log := zap.New(zap.UseFlagOptions(&o.log))
	for range n {
		log.V(1).Info(begins)
	}
	if got := strings.Count(out.String(), begins); got != n {
		t.Errorf("got %d lines of %d", got, n)
	}
}
