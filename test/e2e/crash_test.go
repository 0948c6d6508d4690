//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crash ends the program in a pod of the operator as the kernel does when memory is short, and waits until
// the kubelet has started it again in the same pod. A forced deletion does not show it: the kubelet gives
// every pod two seconds, in which an instance hands over.
func (h *hosting) crash(name string) {
	h.Helper()
	if !onNode() {
		h.Log("no program is killed: its node is another machine, E2E_ON_NODE is not set")
		return
	}
	g := NewWithT(h)
	before := h.instancePod(g, name)
	found := processes(g, string(before.UID), "webhosting")
	g.Expect(found).To(HaveLen(1), "processes of pod %s", name)
	g.Expect(syscall.Kill(found[0], syscall.SIGKILL)).To(Succeed())
	h.eventually(func(g Gomega) {
		now := h.instancePod(g, name)
		g.Expect(now.UID).To(Equal(before.UID))
		g.Expect(now.Status.ContainerStatuses[0].RestartCount).To(BeNumerically(">", before.Status.ContainerStatuses[0].RestartCount))
	}, "pod %s starts its program again", name)
}

func (h *hosting) instancePod(g Gomega, name string) *corev1.Pod {
	pod, err := h.client.CoreV1().Pods(hostingSystem).Get(h.Context(), name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pod.Status.ContainerStatuses).NotTo(BeEmpty())
	return pod
}

// processes are those of a program in a pod. The node's processes are this machine's.
func processes(g Gomega, pod, program string) []int {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	g.Expect(err).NotTo(HaveOccurred())
	var found []int
	for _, group := range groups {
		// Processes end while we look.
		content, err := os.ReadFile(group)
		if err != nil || !strings.Contains(string(content), pod) {
			continue
		}
		file, err := os.Readlink(filepath.Join(filepath.Dir(group), "exe"))
		if err != nil || filepath.Base(file) != program {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(group)))
		g.Expect(err).NotTo(HaveOccurred())
		found = append(found, id)
	}
	return found
}
