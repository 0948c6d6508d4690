package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// The content of the output is tested in internal/status.

// populate creates a ring with a shard that owns an object.
func populate(t *testing.T, r *rig.Rig) *shardingv1alpha1.ControllerRing {
	t.Helper()
	g := NewWithT(t)
	ring, shard, now := declare(t, r), "shard-0", metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: shard, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &shard, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: "object", Labels: map[string]string{shardingv1alpha1.LabelShard(ring.Name): shard},
	}}
	for _, created := range []client.Object{lease, object} {
		g.Expect(r.Client.Create(t.Context(), created)).To(Succeed())
		// Other tests list all rings of the shared API server.
		t.Cleanup(func() { g.Expect(r.Client.Delete(context.Background(), created)).To(Succeed()) })
	}
	return ring
}

func TestStatus(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)

	all, stderr, err := user.ringmaster("", "status")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(all).To(And(HavePrefix("RING "), ContainSubstring(ring.Name)))
	one, stderr, err := user.ringmaster("", "status", ring.Name, "-n", r.Namespace)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(one).To(And(MatchRegexp(`shard-0 +\S+ +ready`), ContainSubstring("no sharder has observed the ControllerRing"), ContainSubstring("add --count"), Not(ContainSubstring("\x1b"))))
	coloured, stderr, err := user.ringmaster("", "status", "--ring", ring.Name, "--color=always", "-A", "-o", "wide")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(coloured).To(ContainSubstring("\x1b[32mready\x1b[0m"))

	text, stderr, err := user.ringmaster("", "status", ring.Name, "-n", r.Namespace, "--count", "-o", "json")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	report := &status.Report{}
	g.Expect(json.Unmarshal([]byte(text), report)).To(Succeed())
	g.Expect(report.Rings[0].Shards[0].Objects).To(Equal(map[string]int{"configmaps": 1}))
}

func TestExplain(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)
	for _, args := range [][]string{{"configmap/object"}, {"cm", "object"}, {"configmaps", "object", "object"}} {
		object, stderr, err := user.ringmaster("", append([]string{"explain", "--ring", ring.Name, "-n", r.Namespace}, args...)...)
		g.Expect(err).NotTo(HaveOccurred(), stderr)
		g.Expect(object).To(ContainSubstring("configmaps/object: shard-0 owns the object, as the ring requires."))
	}
	owner, stderr, err := user.ringmaster("", "explain", "cm/object", "--ring", ring.Name, "-n", r.Namespace, "-o", "jsonpath={.objects[0].places[0].shard}")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(owner).To(Equal("shard-0"))
}

// TestExitCode has a ring that no sharder has observed.
func TestExitCode(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)
	out, stderr, err := user.ringmaster("", "status", ring.Name, "--exit-code")
	g.Expect(err).To(MatchError("exit status 1"))
	g.Expect(out).To(HavePrefix("RING "), "it prints the state, too")
	g.Expect(stderr).To(And(ContainSubstring(`ring "`+ring.Name+`": Ready is Unknown`), ContainSubstring("no sharder is active")))
	_, _, err = user.ringmaster("", "status", "elsewhere", "--exit-code")
	g.Expect(err).To(MatchError("exit status 2"))
	_, _, err = user.ringmaster("", "status", "elsewhere")
	g.Expect(err).To(MatchError("exit status 1"))

	ring.Status = shardingv1alpha1.ControllerRingStatus{ObservedGeneration: ring.Generation, Conditions: []metav1.Condition{{
		Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now(),
	}}}
	g.Expect(r.Client.Status().Update(t.Context(), ring)).To(Succeed())
	_, stderr, err = user.ringmaster("", "status", ring.Name, "-n", r.Namespace, "--count", "--exit-code")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	orphan := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: "orphan", Labels: map[string]string{shardingv1alpha1.LabelShard(ring.Name): "gone"},
	}}
	g.Expect(r.Client.Create(t.Context(), orphan)).To(Succeed())
	t.Cleanup(func() { g.Expect(r.Client.Delete(context.Background(), orphan)).To(Succeed()) })
	_, stderr, err = user.ringmaster("", "status", ring.Name, "-n", r.Namespace, "--count", "--exit-code")
	g.Expect(err).To(MatchError("exit status 1"))
	g.Expect(stderr).To(ContainSubstring("1 object is orphaned"))
}

// TestImpersonation uses flags that come from kubectl's library.
func TestImpersonation(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	_, user := populate(t, r), newCLIUser(t, r)
	_, stderr, err := user.ringmaster("", "status", "--as", "nobody")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring(`User "nobody" cannot list resource "controllerrings"`))
	_, stderr, err = user.ringmaster("", "status", "--as", "nobody", "--as-group", "system:masters", "--request-timeout", "1m")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	_, stderr, err = user.ringmaster("", "status", "--request-timeout", "1ns")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(Or(ContainSubstring("Client.Timeout exceeded"), ContainSubstring("deadline exceeded")))
}

func TestStatusRefuses(t *testing.T) {
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)
	explain := func(args ...string) []string { return append([]string{"explain"}, args...) }
	status := func(args ...string) []string { return append([]string{"status"}, args...) }
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown ring":          {status("elsewhere"), `ring "elsewhere" not found (available: `},
		"object":                {status("configmap/object"), `"configmap/object" is not the name of a ring: to explain the owner of an object, use 'ringmaster explain configmap/object'`},
		"type":                  {status("configmaps"), `to explain the owner of an object, use 'ringmaster explain configmaps/NAME'`},
		"type and name":         {status("configmaps", "object"), `to explain the owner of an object, use 'ringmaster explain configmaps object'`},
		"unknown namespace":     {status("-n", "nowhere"), `namespace "nowhere" not found`},
		"namespace, and all":    {status("-n", "default", "-A"), "--namespace and --all-namespaces exclude each other\nSee 'ringmaster status --help'"},
		"exit code, and watch":  {status("--exit-code", "--watch"), "--exit-code and --watch exclude each other\nSee 'ringmaster status --help'"},
		"unknown format":        {status("-o", "xml"), `unknown format "xml": use table, wide, json, yaml, name`},
		"unknown colour":        {status("--color", "green"), "use auto, always or never"},
		"kubeconfig not found":  {status("--kubeconfig", "/nonexistent"), "reading the kubeconfig"},
		"unknown context":       {status("--context", "elsewhere"), `context "elsewhere" does not exist`},
		"no object":             {explain(), "name an object as TYPE/NAME\nSee 'ringmaster explain --help'"},
		"type alone":            {explain("configmaps"), "name an object as TYPE/NAME\nSee 'ringmaster explain --help'"},
		"mixed forms":           {explain("configmap/object", "object"), "See 'ringmaster explain --help'"},
		"unknown object":        {explain("configmap/absent", "-n", r.Namespace), `configmap "absent" not found in namespace "` + r.Namespace + "\"\n"},
		"namespace of context":  {explain("configmap/absent"), `in namespace "default": select another namespace with -n`},
		"kind without a ring":   {explain("pod/x", "--ring", ring.Name), "no ring has the resource pods (available:\n  ring " + ring.Name + ": configmaps, deployments.apps)"},
		"unknown type":          {explain("thing/x"), `does not serve the type "thing"`},
		"unknown ring, explain": {explain("cm/object", "--ring", "elsewhere"), `ring "elsewhere" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, stderr, err := user.ringmaster("", test.args...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring(test.want))
		})
	}
}

// TestStatusWatch updates the output until it is interrupted.
func TestStatusWatch(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Build(t, "./cmd/ringmaster", rig.Race), "status", ring.Name, "--watch")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+user.kubeconfig)
	out, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	updates := 0
	for lines := bufio.NewScanner(out); updates < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "RING ") {
			updates++
		}
	}
	g.Expect(updates).To(Equal(2))
	g.Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
	g.Expect(cmd.Wait()).To(Succeed())
}

// TestPlugin runs the program as a plugin of a real kubectl.
func TestPlugin(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := populate(t, r), newCLIUser(t, r)
	folder := rig.TempDir(t)
	g.Expect(os.Symlink(rig.Build(t, "./cmd/ringmaster", rig.Race), filepath.Join(folder, "kubectl-ring"))).To(Succeed())
	kubectl := func(args ...string) (out, stderr string, err error) {
		t.Setenv("PATH", fmt.Sprintf("%s%c%s", folder, os.PathListSeparator, os.Getenv("PATH")))
		return user.run(filepath.Join(rig.Assets(t), "kubectl"), "", args...)
	}
	help, stderr, err := kubectl("ring")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(help).To(And(ContainSubstring("kubectl ring [command]"), ContainSubstring("status"), ContainSubstring("explain"),
		Not(ContainSubstring("Evaluate")), Not(ContainSubstring("ringmaster"))))
	help, stderr, err = kubectl("ring", "explain", "--help")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(help).To(And(ContainSubstring("kubectl ring explain website/homepage"), Not(ContainSubstring("ringmaster"))))
	out, stderr, err := kubectl("ring", "explain", "cm/object", "-n", r.Namespace, "--ring", ring.Name)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(out).To(ContainSubstring("shard-0 owns the object"))
	_, stderr, err = kubectl("ring", "role", "one", "two")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("See 'kubectl ring role --help'"))
}

// TestMistypedCommands has errors that name the help.
func TestMistypedCommands(t *testing.T) {
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nearly a command": {[]string{"stats"}, "unknown command \"stats\"; did you mean status?\nSee 'ringmaster --help'"},
		"no command":       {[]string{"dance"}, "unknown command \"dance\"\nSee 'ringmaster --help'"},
		"no such flag":     {[]string{"status", "--verbose"}, "unknown flag: --verbose\nSee 'ringmaster status --help'"},
		"no kubeconfig":    {[]string{"status"}, "no cluster is configured: reading a file of KUBECONFIG: stat /nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, stderr, err := nowhere.ringmaster("", test.args...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring(test.want))
		})
	}
}
