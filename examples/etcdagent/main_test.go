package main

import (
	"errors"
	"flag"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	const enough = "--dir=/d --etcd=/etcd --region=dc1"
	for name, test := range map[string]struct{ args, want string }{
		"enough":          {enough, ""},
		"with ports":      {enough + " --ports=21790-21799", ""},
		"wrong ports":     {enough + " --ports=21790", "invalid port range"},
		"no folder":       {"--etcd=/etcd --region=dc1", "--dir is missing"},
		"no etcd":         {"--dir=/d --region=dc1", "--etcd is missing"},
		"no region":       {"--dir=/d --etcd=/etcd", "--region is missing"},
		"with TLS":        {enough + " --peer-cert=/c --peer-key=/k --peer-ca=/a", ""},
		"without the key": {enough + " --peer-cert=/c --peer-ca=/a", "go together"},
		"a lonely key":    {enough + " --peer-key=/k", "go together"},
		"an unknown flag": {enough + " --fast", "see etcdagent --help"},
		"something else":  {enough + " now", "unexpected argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(strings.Fields(test.args), t.Output())
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	output := &strings.Builder{}
	if _, err := parse([]string{"--help"}, output); !errors.Is(err, flag.ErrHelp) || !strings.Contains(output.String(), "etcdagent") {
		t.Errorf("%v: it says %q", err, output)
	}
}
