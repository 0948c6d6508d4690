package moves

import (
	"fmt"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// NewClient makes a client for the metadata of many objects. What it reads is not compressed: on the way inside of a cluster that would
// take more of both sides' time than it saves.
func NewClient(config *rest.Config) (metadata.Interface, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for metadata: %w", err)
	}
	return client, nil
}
