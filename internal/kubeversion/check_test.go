package kubeversion_test

import (
	"errors"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		info apiversion.Info
		// tooOld is the version in the error, or "" if the API server is new enough.
		tooOld string
	}{
		"minimum":                    {info: apiversion.Info{Major: "1", Minor: "35", GitVersion: "v1.35.0"}},
		"newer patch":                {info: apiversion.Info{Major: "1", Minor: "35", GitVersion: "v1.35.7"}},
		"newer minor":                {info: apiversion.Info{Major: "1", Minor: "40", GitVersion: "v1.40.0"}},
		"newer major":                {info: apiversion.Info{Major: "2", Minor: "0", GitVersion: "v2.0.0"}},
		"older minor":                {apiversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.2"}, "v1.33.2"},
		"one minor older":            {apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.99"}, "v1.34.99"},
		"fewer digits":               {apiversion.Info{Major: "1", Minor: "9", GitVersion: "v1.9.11"}, "v1.9.11"},
		"pre-release of the minimum": {info: apiversion.Info{Major: "1", Minor: "35+", GitVersion: "v1.35.0-rc.1"}},
		"GKE":                        {info: apiversion.Info{Major: "1", Minor: "35", GitVersion: "v1.35.1-gke.100"}},
		"old GKE":                    {apiversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.5-gke.1000"}, "v1.34.5-gke.1000"},
		"EKS":                        {info: apiversion.Info{Major: "1", Minor: "35+", GitVersion: "v1.35.2-eks-1234567"}},
		"old EKS":                    {apiversion.Info{Major: "1", Minor: "32+", GitVersion: "v1.32.9-eks-1234567"}, "v1.32.9-eks-1234567"},
		"k3s":                        {info: apiversion.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0+k3s1"}},
		"without v and patch":        {info: apiversion.Info{GitVersion: "1.35+"}},
		"old without v and patch":    {apiversion.Info{GitVersion: "1.34+"}, "1.34+"},
		"only numbers":               {info: apiversion.Info{Major: "1", Minor: "35+", GitVersion: "unknown"}},
		"only old numbers":           {apiversion.Info{Major: "1", Minor: "31+", GitVersion: "unknown"}, "unknown"},
		"development build":          {info: apiversion.Info{GitVersion: "v0.0.0-master+$Format:%H$"}},
		"no version":                 {},
		"not a version":              {info: apiversion.Info{Major: "one", Minor: "two", GitVersion: "three"}},
		"emulates itself":            {info: apiversion.Info{GitVersion: "v1.36.1", EmulationMajor: "1", EmulationMinor: "36"}},
		"emulates the minimum":       {info: apiversion.Info{GitVersion: "v1.36.1", EmulationMajor: "1", EmulationMinor: "35"}},
		"emulates an old one":        {apiversion.Info{GitVersion: "v1.36.1", EmulationMajor: "1", EmulationMinor: "34"}, "v1.36.1, which emulates 1.34,"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kubeversion.Check(&test.info)
			if test.tooOld == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if tooOld := (*kubeversion.TooOldError)(nil); !errors.As(err, &tooOld) {
				t.Fatalf("got %v", err)
			}
			for _, want := range []string{"Kubernetes " + test.tooOld + " is too old", "needs 1.35 or newer", "because", "upgrade"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}
