package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
)

// AssetsVariable names the folder with the programs of Kubernetes, as for envtest.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// FindAssets returns the folder with Kubernetes' programs: the one that the environment names, or
// else the given one.
func FindAssets(folder string) (string, error) {
	if named := os.Getenv(AssetsVariable); named != "" {
		folder = named
	}
	return FindAssetsIn(folder)
}

// FindAssetsIn returns the folder if it has Kubernetes' programs.
func FindAssetsIn(folder string) (string, error) {
	for _, name := range []string{Etcd, APIServer} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("%s is missing in %s: build Kubernetes with 'make kubernetes', "+
				"or name the folder that has it with %s", name, folder, AssetsVariable)
		}
	}
	return filepath.Abs(folder)
}
