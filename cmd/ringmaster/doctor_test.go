package main_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/doctor"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// What is found is tested in internal/doctor. Here is how it is asked for.

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

func TestDoctor(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, admin := populate(t, r), newCLIUser(t, r)
	text, stderr, err := admin.ringmaster("", "doctor", "--ring", ring.Name, "--sharder-namespace", r.Namespace)
	g.Expect(exitCode(err)).To(Equal(1), stderr)
	g.Expect(text).To(And(HavePrefix("ok       server       Kubernetes v"), ContainSubstring("failure  sharder"), ContainSubstring("next: "),
		MatchRegexp(`\d+ failures?, \d+ warnings? and \d+ unknown in 10 checks\.`), Not(ContainSubstring("\x1b"))))
	g.Expect(stderr).To(MatchRegexp(`^Error: \d+ failures? found\n$`))

	out, _, err := admin.ringmaster("", "doctor", "--ring", ring.Name, "--sharder-namespace", r.Namespace, "-o", "json")
	g.Expect(exitCode(err)).To(Equal(1))
	report := &doctor.Report{}
	g.Expect(json.Unmarshal([]byte(out), report)).To(Succeed())
	g.Expect(report.Status).To(Equal(doctor.Failure))

	printed, stderr, err := admin.ringmaster("", "doctor", "--print-role")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	admin.kubectlApply(printed)
}

// TestDoctorWithoutFailures has no ring of the name any more, but its webhook configuration, which is a warning.
func TestDoctorWithoutFailures(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	admin := newCLIUser(t, r)
	ring := declare(t, r).Name
	_, stderr, err := admin.ringmaster("", "doctor", "--ring", "absent")
	g.Expect(exitCode(err)).To(Equal(2))
	g.Expect(stderr).To(And(ContainSubstring(`ring "absent" not found (available: `), ContainSubstring(ring)))
	g.Expect(r.Client.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "controllerring-" + ring + "-gone", Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring + "-gone"}},
	})).To(Succeed())
	text, stderr, err := admin.ringmaster("", "doctor", "--ring", ring+"-gone", "--color", "always")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(text).To(ContainSubstring("\x1b[33mwarning\x1b[0m  webhooks     1 finding"))
	g.Expect(text).To(ContainSubstring("\n0 failures, 1 warning and 0 unknown in 10 checks.\n"))
}

// TestDoctorCannotCheck ends with 2.
func TestDoctorCannotCheck(t *testing.T) {
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no cluster":          {nil, "no cluster is configured: reading a file of KUBECONFIG: stat /nonexistent"},
		"an argument":         {[]string{"webhosting"}, "name a ring with --ring"},
		"no such flag":        {[]string{"--verbose"}, "unknown flag: --verbose\nSee 'ringmaster doctor --help'"},
		"no such format":      {[]string{"-o", "table"}, "must be one of text, json, yaml"},
		"not a ring":          {[]string{"--ring", "a,B"}, `--ring "B": not a valid name`},
		"not an account":      {[]string{"--sharder-service-account", "sharder"}, "must be NAMESPACE/NAME"},
		"not a shard account": {[]string{"--shard-service-account", "operator"}, "must be NAMESPACE/NAME"},
		"no time":             {[]string{"--timeout", "0s"}, "--timeout 0s: must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, stderr, err := nowhere.ringmaster("", append([]string{"doctor"}, test.args...)...)
			g.Expect(exitCode(err)).To(Equal(2), stderr)
			g.Expect(stderr).To(ContainSubstring(test.want))
		})
	}
}
