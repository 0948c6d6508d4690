package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// verdict is the outcome of a mutant's test.
type verdict string

// The verdicts.
const (
	killed       verdict = "killed"
	survived     verdict = "survived"
	stale        verdict = "stale"
	notCompiled  verdict = "does not compile"
	panicked     verdict = "panicked"
	timedOut     verdict = "timed out"
	otherFailure verdict = "failed otherwise"
	failsAlways  verdict = "fails without it"
)

// event is a line of go test's JSON output.
type event struct {
	Action, Package, Test, Output, FailedBuild string
}

// outcome is go test's report about one package.
type outcome struct {
	passed, failed map[string]bool   // tests
	output         map[string]string // of each test
	all            string
	buildFailed    bool
}

func parse(output []byte) outcome {
	o := outcome{passed: map[string]bool{}, failed: map[string]bool{}, output: map[string]string{}}
	var all strings.Builder
	lines := bufio.NewScanner(strings.NewReader(string(output)))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // go itself, about flags or packages
			all.WriteString(lines.Text() + "\n")
			continue
		}
		switch e.Action {
		case "output", "build-output":
			all.WriteString(e.Output)
			o.output[e.Test] += e.Output
		case "build-fail":
			o.buildFailed = true
		case "pass":
			o.passed[e.Test] = true
		case "fail":
			o.failed[e.Test] = true
			o.buildFailed = o.buildFailed || e.FailedBuild != ""
		}
	}
	o.all = all.String()
	return o
}

// outputOf is the output of a test with its subtests, or of go test itself if there is none.
func (o outcome) outputOf(test string) string {
	var own strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.output)) {
		if name == test || strings.HasPrefix(name, test+"/") {
			own.WriteString(o.output[name])
		}
	}
	return cmp.Or(own.String(), o.all)
}

var (
	timeout = regexp.MustCompile(`(?m)^panic: test timed out after `)
	panics  = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	// frame are the lines of the testing package itself.
	frame = regexp.MustCompile(`(?m)^\s*(--- (FAIL|PASS): |=== ).*$`)
	// assertion is how a message of a test begins, whether it was logged or made the test fail.
	assertion = regexp.MustCompile(`(?m)^\s+[\w.-]+\.go:\d+: `)
)

// judge says whether a test has noticed a mutant by a message.
func judge(o outcome, test, message string) verdict {
	switch {
	case o.buildFailed:
		return notCompiled
	case timeout.MatchString(o.all):
		return timedOut
	case panics.MatchString(o.all):
		return panicked
	case o.passed[test] && len(o.failed) == 0:
		return survived
	}
	expected := regexp.MustCompile(message)
	for name := range o.failed {
		if name != test && !strings.HasPrefix(name, test+"/") {
			continue
		}
		messages := assertion.Split(frame.ReplaceAllString(o.output[name], ""), -1)[1:]
		if slices.ContainsFunc(messages, expected.MatchString) {
			return killed
		}
	}
	return otherFailure
}
