package shard

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json" // keeps large integers
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/ownership"
)

// adoptingClient is a client that assigns the children of this shard's objects to this shard when it
// writes them.
type adoptingClient struct {
	client.Client
	owned *ownership.Ownership
}

// Create implements client.Writer.
func (c *adoptingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	c.owned.Adopt(ctx, object)
	return c.Client.Create(ctx, object, options...)
}

// Update implements client.Writer. Reconcilers that set all labels of a child would remove the shard label.
func (c *adoptingClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	c.owned.Adopt(ctx, object)
	return c.Client.Update(ctx, object, options...)
}

// Patch implements client.Writer. Of patches, only server-side apply can create a child.
func (c *adoptingClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if patch.Type() == types.ApplyPatchType {
		c.owned.Adopt(ctx, object)
	}
	return c.Client.Patch(ctx, object, patch, options...)
}

// Apply implements client.Writer. Apply configurations have no accessors for labels and owners, so a
// configuration that needs the shard label is applied in its unstructured form.
func (c *adoptingClient) Apply(ctx context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	content, err := json.Marshal(config)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return err
	}
	if !c.owned.Adopt(ctx, object) {
		return c.Client.Apply(ctx, config, options...)
	}
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
		return err
	}
	// As with any client, the configuration then holds the API server's response.
	if content, err = json.Marshal(object.Object); err != nil {
		return err
	}
	return json.Unmarshal(content, config)
}
