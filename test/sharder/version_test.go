package sharder_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// oldVersion is the response to /version of an API server that is too old for Ringmaster.
const oldVersion = `{"major":"1","minor":"33","gitVersion":"v1.33.2"}`

// TestOldAPIServerEndsSharder with one line that has both versions and the next step.
func TestOldAPIServerEndsSharder(t *testing.T) {
	f := setUp(t)
	proxy := f.Proxy(t)
	proxy.Answer("/version", []byte(oldVersion))
	p := f.run(rig.SharderOptions{Name: "sharder-0", Roles: []string{ringRole}, Proxy: proxy})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	err := p.Wait(ctx)
	exit := (*exec.ExitError)(nil)
	f.Expect(errors.As(err, &exit)).To(BeTrue(), "it ended with %v", err)
	f.Expect(exit.ExitCode()).To(Equal(1))
	f.Expect(p.Tail(1)).To(And(
		HavePrefix("Error: Kubernetes v1.33.2 is too old: "), ContainSubstring("needs 1.35 or newer, because "), ContainSubstring("upgrade the control plane"),
	))
}
