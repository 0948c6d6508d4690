//go:build e2e

package e2e

import (
	"strconv"
	"strings"

	. "github.com/onsi/gomega"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// protect applies the policies of the ring as 'ringmaster policy' prints them, until the test ends.
func (h *hosting) protect() {
	h.Helper()
	if !h.mode.sharded {
		return
	}
	args := []string{"policy", "-f", hostingManifests + "/ring/ring.yaml"}
	if h.mode.elected != "" {
		args = append(args, "--in-process")
	}
	h.kubectl(h.ringmaster()("", args...), "apply", "-f", "-")
	h.Cleanup(func() {
		h.kubectl("", "delete", "validatingadmissionpolicies,validatingadmissionpolicybindings", "-l", shardingv1alpha1.LabelControllerRing+"="+operator)
	})
	if h.mode.elected == "" {
		h.kubectl("", "wait", "--for=condition="+shardingv1alpha1.ConditionFenced, "controllerring/"+operator, "--timeout="+testTimeout.String())
	}
}

// expectNoRefusals fails the test if the policies have refused a request in normal operation.
func (h *hosting) expectNoRefusals() {
	h.Helper()
	if refused := h.refusals(); refused > 0 {
		h.Errorf("the policies of the ring refused %d requests in normal operation", refused)
	}
}

// refusals returns how many requests the policies of the ring have refused, as the API server counts them.
func (h *hosting) refusals() int {
	h.Helper()
	metrics, err := h.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(h.Context())
	NewWithT(h).Expect(err).NotTo(HaveOccurred())
	refused := 0
	for line := range strings.Lines(string(metrics)) {
		if !strings.HasPrefix(line, "apiserver_validating_admission_policy_check_total{") ||
			!strings.Contains(line, `policy="`+shardingv1alpha1.PolicyPrefix+operator+"-") || !strings.Contains(line, `enforcement_action="deny"`) {
			continue
		}
		fields := strings.Fields(line)
		count, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		NewWithT(h).Expect(err).NotTo(HaveOccurred())
		refused += int(count)
		h.Logf("refused: %s", strings.TrimSpace(line))
	}
	return refused
}
