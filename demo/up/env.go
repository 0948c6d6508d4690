package up

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// envFile is what another terminal reads to reach what is up: one short line to copy, whatever it takes.
const envFile = "env"

// writeEnv writes the file for other terminals. Endpoints are where operators meet, if they do.
func (r *run) writeEnv(endpoints string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	path := filepath.Join(r.folder.path, envFile)
	content := environment(path, r.plane.Kubeconfig, filepath.Dir(self), r.Assets)
	if endpoints != "" {
		content += fmt.Sprintf("export %s=%s\n", coordinationstatus.EndpointsVariable, quote(endpoints))
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing what other terminals need: %w", err)
	}
	return nil
}

// environment makes kubectl and ringmaster work in a shell that reads it. A kubectl that is there already stays.
func environment(path, kubeconfig, programs, assets string) string {
	return fmt.Sprintf(`# For other terminals, while 'ringmaster up' runs:
#   . %s
export KUBECONFIG=%s
export PATH=%s:"$PATH"
command -v kubectl >/dev/null || export PATH="$PATH":%s
`, quote(path), quote(kubeconfig), quote(programs), quote(assets))
}

// setup is what to type in another terminal.
func (r *run) setup() string { return ". " + quote(filepath.Join(r.folder.path, envFile)) }
