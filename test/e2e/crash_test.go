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

// crash kills the program in a pod of the operator as the kernel does when memory runs out, and waits until
// the kubelet has started it again in the same pod. A forced deletion is not the same: the kubelet gives
// every pod two seconds, in which an instance hands its objects over.
func (h *hosting) crash(name string) {
	h.Helper()
	if !onNode() {
		h.Log("not killing a program, because E2E_ON_NODE is not set: the node is another machine")
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

// processes returns the PIDs of a program in a pod. The node's processes run on this machine.
func processes(g Gomega, pod, program string) []int {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	g.Expect(err).NotTo(HaveOccurred())
	var found []int
	for _, group := range groups {
		// Processes may end meanwhile.
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
