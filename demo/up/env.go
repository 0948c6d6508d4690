package up

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
)

// envFile is the file that prepares another terminal, which takes one short line to copy.
const envFile = "env"

// writeEnv writes the file. endpoints are those of the coordination store, or empty.
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
		return fmt.Errorf("writing the file for other terminals: %w", err)
	}
	return nil
}

// environment returns the content of the file, which makes kubectl and ringmaster work in a shell.
// A kubectl that is already on the PATH takes precedence.
func environment(path, kubeconfig, programs, assets string) string {
	return fmt.Sprintf(`# For other terminals, while 'ringmaster up' runs:
#   . %s
export KUBECONFIG=%s
export PATH=%s:"$PATH"
command -v kubectl >/dev/null || export PATH="$PATH":%s
`, quote(path), quote(kubeconfig), quote(programs), quote(assets))
}
