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

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// What is shown is tested in internal/status. Here is how it is asked for.

// populate makes a ring with a shard that has an object.
func populate(t *testing.T, r *rig.Rig) *shardingv1alpha1.ControllerRing {
	t.Helper()
	g := NewWithT(t)
	ring, shard, now := declare(t, r), "shard-0", metav1.NowMicro()
	g.Expect(r.Client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: shard, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &shard, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	})).To(Succeed())
	g.Expect(r.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: "object", Labels: map[string]string{shardingv1alpha1.LabelShard(ring.Name): shard},
	}})).To(Succeed())
	return ring
}

func TestStatus(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, somebody := populate(t, r), newPerson(t, r)

	all, said, err := somebody.types("", "status")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(all).To(And(HavePrefix("RING "), ContainSubstring(ring.Name)))
	one, said, err := somebody.types("", "status", ring.Name, "-n", r.Namespace)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(one).To(And(MatchRegexp(`shard-0 +\S+ +ready`), ContainSubstring("no sharder has seen the ControllerRing"), Not(ContainSubstring("\x1b"))))
	coloured, said, err := somebody.types("", "status", "--ring", ring.Name, "--color=always", "-A", "-o", "wide")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(coloured).To(ContainSubstring("\x1b[32mready\x1b[0m"))

	text, said, err := somebody.types("", "status", ring.Name, "-n", r.Namespace, "-o", "json")
	g.Expect(err).NotTo(HaveOccurred(), said)
	report := &status.Report{}
	g.Expect(json.Unmarshal([]byte(text), report)).To(Succeed())
	g.Expect(report.Rings[0].Shards[0].Objects).To(Equal(map[string]int{"configmaps": 1}))

	for _, args := range [][]string{{"configmap/object"}, {"cm", "object"}, {"configmaps", "object", "object"}} {
		object, said, err := somebody.types("", append([]string{"status", "--ring", ring.Name, "-n", r.Namespace}, args...)...)
		g.Expect(err).NotTo(HaveOccurred(), said)
		g.Expect(object).To(ContainSubstring("configmaps/object: It is where the ring says."))
	}
}

func TestStatusRefuses(t *testing.T) {
	r := rig.Shared(t)
	ring, somebody := populate(t, r), newPerson(t, r)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a ring that is not there":      {[]string{"elsewhere"}, `there is no ring "elsewhere", but: `},
		"a type without a name":         {[]string{"configmaps"}, `"configmaps" is a type: for one of its objects, 'ringmaster status configmaps/NAME'`},
		"an object that is not there":   {[]string{"configmap/absent", "-n", r.Namespace}, "there is no configmap \"absent\" in the namespace " + r.Namespace + "\n"},
		"an object in no namespace":     {[]string{"configmap/absent"}, "in the namespace default: name another one with -n"},
		"a namespace that is not there": {[]string{"-n", "nowhere"}, `there is no namespace "nowhere"`},
		"an object of another kind":     {[]string{"pod/x", "--ring", ring.Name}, "no ring spreads pods. There are:\n  " + ring.Name + ": [configmaps deployments.apps]"},
		"a kind that is not there":      {[]string{"thing/x"}, `does not know the type "thing"`},
		"a namespace, and all":          {[]string{"-n", "default", "-A"}, "either -n or -A\nSee 'ringmaster status --help'"},
		"an object in all namespaces":   {[]string{"configmap/object", "-A"}, "name it with -n"},
		"a mixture":                     {[]string{"configmap/object", "object"}, "See 'ringmaster status --help'"},
		"a format that does not exist":  {[]string{"-o", "xml"}, "it is one of table, wide, json, yaml"},
		"a colour that does not exist":  {[]string{"--color", "green"}, "it is one of auto, always, never"},
		"a kubeconfig that is absent":   {[]string{"--kubeconfig", "/nonexistent"}, "reading the kubeconfig"},
		"a context that does not exist": {[]string{"--context", "elsewhere"}, `context "elsewhere" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, said, err := somebody.types("", append([]string{"status"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring(test.want))
		})
	}
}

// TestStatusWatch looks again until it is told to end.
func TestStatusWatch(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, somebody := populate(t, r), newPerson(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Build(t, "./cmd/ringmaster", rig.Race), "status", ring.Name, "--watch")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+somebody.kubeconfig)
	out, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cmd.Start()).To(Succeed())
	looks := 0
	for lines := bufio.NewScanner(out); looks < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "RING ") {
			looks++
		}
	}
	g.Expect(looks).To(Equal(2))
	g.Expect(cmd.Process.Signal(os.Interrupt)).To(Succeed())
	g.Expect(cmd.Wait()).To(Succeed())
}

// TestPlugin is called by a real kubectl.
func TestPlugin(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, somebody := populate(t, r), newPerson(t, r)
	folder := rig.TempDir(t)
	g.Expect(os.Symlink(rig.Build(t, "./cmd/ringmaster", rig.Race), filepath.Join(folder, "kubectl-ring"))).To(Succeed())
	kubectl := func(args ...string) (out, said string, err error) {
		t.Setenv("PATH", fmt.Sprintf("%s%c%s", folder, os.PathListSeparator, os.Getenv("PATH")))
		return somebody.run(filepath.Join(rig.Assets(t), "kubectl"), "", args...)
	}
	help, said, err := kubectl("ring")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(help).To(And(ContainSubstring("kubectl ring [command]"), ContainSubstring("status"), Not(ContainSubstring("ringmaster"))))
	help, said, err = kubectl("ring", "status", "--help")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(help).To(And(ContainSubstring("kubectl ring status website/homepage"), Not(ContainSubstring("ringmaster"))))
	out, said, err := kubectl("ring", "status", "cm/object", "-n", r.Namespace, "--ring", ring.Name)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(ContainSubstring("It is where the ring says."))
	_, said, err = kubectl("ring", "role", "one", "two")
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(ContainSubstring("See 'kubectl ring role --help'"))
}

// TestMistypedCommands say where help is.
func TestMistypedCommands(t *testing.T) {
	nowhere := &person{t: t, kubeconfig: "/nonexistent"}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nearly a command": {[]string{"stats"}, "unknown command \"stats\"; did you mean status?\nSee 'ringmaster --help'"},
		"no command":       {[]string{"dance"}, "unknown command \"dance\"\nSee 'ringmaster --help'"},
		"no such flag":     {[]string{"status", "--verbose"}, "unknown flag: --verbose\nSee 'ringmaster status --help'"},
		"no kubeconfig":    {[]string{"status"}, "KUBECONFIG names a file that cannot be read: stat /nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, said, err := nowhere.types("", test.args...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring(test.want))
		})
	}
}
