package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// AssetsVariable is the environment variable with the folder of Kubernetes' programs, as for envtest.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// FindAssets returns the folder with the programs of Kubernetes: that of AssetsVariable, or else the
// given one.
func FindAssets(folder string) (string, error) {
	if named := os.Getenv(AssetsVariable); named != "" {
		folder = named
	}
	return FindAssetsIn(folder)
}

// FindAssetsIn returns the folder if it has the programs of Kubernetes.
func FindAssetsIn(folder string) (string, error) {
	for _, name := range []string{Etcd, APIServer} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("%s not found in %s: build Kubernetes with 'make kubernetes', "+
				"or set %s to the folder with the programs", name, folder, AssetsVariable)
		}
	}
	return filepath.Abs(folder)
}
