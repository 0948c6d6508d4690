package rig_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{Programs: map[string]rig.Program{"beat": beat, "fail": fail}})
}

// roles are the roles of the processes of these tests.
var roles = []string{"internal/rig/testdata/roles"}

// beat increments a number in a ConfigMap with the process's name until it is terminated.
func beat(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	configMaps := client.CoreV1().ConfigMaps(os.Getenv("POD_NAMESPACE"))
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: os.Getenv("POD_NAME")}}
	if object, err = configMaps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return err
	}
	for n := 1; ; n++ {
		object.Data = map[string]string{"beats": strconv.Itoa(n)}
		if object, err = configMaps.Update(ctx, object, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			fmt.Println("terminated")
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func fail(context.Context) error { return errors.New("failed on purpose") }

// beats returns what the process has counted to.
func beats(r *rig.Rig, name string) func() (string, error) {
	return func() (string, error) {
		object, err := r.Clientset.CoreV1().ConfigMaps(r.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return object.Data["beats"], nil
	}
}

func TestProcessObeysSignals(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(rig.Timeout)
	r := rig.Shared(t)
	p := r.Start(t, rig.Process{Name: "beat", Program: "beat", Roles: roles})
	counted := beats(r, "beat")
	g.Eventually(counted).ShouldNot(BeEmpty())

	g.Expect(p.Pause()).To(Succeed())
	g.Eventually(counted).MustPassRepeatedly(3).WithPolling(100 * time.Millisecond).Should(stay())
	paused, err := counted()
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(counted, "300ms").Should(Equal(paused), "it is paused")
	g.Expect(p.Running()).To(BeTrue(), "a paused process is still there")

	g.Expect(p.Resume()).To(Succeed())
	g.Eventually(counted).ShouldNot(Equal(paused), "it goes on")

	g.Expect(p.Terminate()).To(Succeed())
	ctx, cancel := context.WithTimeout(t.Context(), rig.Timeout)
	defer cancel()
	g.Expect(p.Wait(ctx)).To(Succeed())
	g.Expect(p.Tail(1)).To(Equal("terminated"))
	g.Expect(p.Running()).To(BeFalse())
	g.Expect(p.Signal(os.Interrupt)).To(Succeed(), "the process has ended")
}

func TestKilledProcessWritesNothing(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	p := r.Start(t, rig.Process{Name: "beat", Program: "beat", Roles: roles})
	g.Eventually(beats(r, "beat"), "30s").ShouldNot(BeEmpty())
	g.Expect(p.Kill()).To(Succeed())
	var exit *exec.ExitError
	g.Expect(errors.As(p.Wait(t.Context()), &exit)).To(BeTrue())
	g.Expect(exit.String()).To(ContainSubstring("killed"))
	g.Expect(p.Tail(10)).To(BeEmpty())
}

// TestProcessHasItsIdentity shows how the API server identifies a process.
func TestProcessHasItsIdentity(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	p := r.Start(t, rig.Process{Name: "shard-0", ServiceAccount: "shard", Program: "beat", Roles: roles})
	client := clientOf(t, p.Kubeconfig)

	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(review.Status.UserInfo.Username).To(Equal("system:serviceaccount:" + r.Namespace + ":shard"))
	g.Expect(review.Status.UserInfo.Extra).To(HaveKeyWithValue(
		"authentication.kubernetes.io/pod-name", authenticationv1.ExtraValue{"shard-0"}))

	_, err = client.CoreV1().Namespaces().Get(t.Context(), r.Namespace, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "its ClusterRole allows that")
	_, err = client.CoreV1().ConfigMaps(r.Namespace).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "its Role allows that")
	_, err = client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "its Role is for its own namespace only: %v", err)
	_, err = client.CoreV1().Secrets(r.Namespace).List(t.Context(), metav1.ListOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "nothing allows that: %v", err)
}

func clientOf(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return clientFor(t, config)
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// stay matches a value that is the same as in the call before.
func stay() OmegaMatcher {
	before := ""
	return Satisfy(func(now string) bool {
		same := now == before
		before = now
		return same
	})
}

func TestEachTestHasItsNamespace(t *testing.T) {
	one, two := rig.Shared(t), rig.Shared(t)
	if one.Namespace == two.Namespace {
		t.Errorf("both are %s", one.Namespace)
	}
	if one.URL() != two.URL() {
		t.Error("they do not share the control plane")
	}
}

func TestRaceDetectorOnRequest(t *testing.T) {
	for name, test := range map[string]struct {
		options []rig.BuildOption
		code    int
	}{
		"plain": {nil, 0},
		"race":  {[]rig.BuildOption{rig.Race}, 66},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(rig.Build(t, "./internal/rig/testdata/racy", test.options...))
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d:\n%s", code, test.code, out)
			}
		})
	}
}

// TestFailureShowsOutput runs a failing test in another process and looks at its log.
func TestFailureShowsOutput(t *testing.T) {
	out, err := testsOf(t, "TestOnlyForFailureShowsOutput", failVariable+"=1").CombinedOutput()
	if err == nil {
		t.Fatal("the test that must fail did not")
	}
	for _, want := range []string{"failed on purpose", "process wrote"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

const failVariable = "RINGMASTER_RIG_TEST_FAIL"

// TestOnlyForFailureShowsOutput fails when TestFailureShowsOutput runs it, after its process has
// written output. Otherwise, it shows that the exit of a failed process is an error.
func TestOnlyForFailureShowsOutput(t *testing.T) {
	p := rig.Shared(t).Start(t, rig.Process{Name: "process", Program: "fail"})
	if err := p.Wait(t.Context()); err == nil {
		t.Error("the process did not fail")
	}
	if os.Getenv(failVariable) != "" {
		t.Error("failing, as asked")
	}
}

// testsOf is a run of this test binary.
func testsOf(t *testing.T, pattern string, env ...string) *exec.Cmd {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(executable, "-test.run=^"+pattern+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

func TestInvalidRolesAreReported(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "other.yaml"), []byte("kind: ConfigMap\napiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rig.ReadRoles(folder); err == nil || !strings.Contains(err.Error(), "no Role") {
		t.Errorf("got %v", err)
	}
	if _, err := rig.ReadRoles(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
