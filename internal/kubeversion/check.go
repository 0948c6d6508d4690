package kubeversion

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// Minimum is the oldest supported version of the API server.
const Minimum = "1.35"

var minimum = version.MustParseGeneric(Minimum)

// TooOldError is returned for an API server that is older than Minimum.
type TooOldError struct {
	// Version is the version that the API server reports.
	Version string
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("Kubernetes %s is too old: Ringmaster needs %s or newer, because older API servers neither guarantee that "+
		"resourceVersions can be compared nor serve paged lists from the watch cache; upgrade the control plane, then start again", e.Version, Minimum)
}

// Check returns a *TooOldError for an API server that is older than Minimum. Pre-releases of Minimum
// are accepted, and suffixes of vendors are ignored ("v1.35.1-gke.100", "1.35+"). So is a version that
// cannot be parsed, or that a development build did not set (v0.0.0).
func Check(info *apiversion.Info) error {
	found := parse(info.GitVersion, info.Major+"."+info.Minor)
	if found == nil || found.Major() == 0 {
		return nil
	}
	if found.LessThan(minimum) {
		return &TooOldError{Version: info.GitVersion}
	}
	// With --emulated-version, an API server disables the features of later versions.
	if emulated := parse(info.EmulationMajor + "." + info.EmulationMinor); emulated != nil && emulated.LessThan(minimum) {
		return &TooOldError{Version: fmt.Sprintf("%s, which emulates %s,", info.GitVersion, emulated)}
	}
	return nil
}

// parse returns the first text that is a version, without its pre-release and build, or nil.
func parse(texts ...string) *version.Version {
	for _, text := range texts {
		if parsed, err := version.ParseGeneric(text); err == nil {
			return parsed
		}
	}
	return nil
}
