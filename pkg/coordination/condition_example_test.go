package coordination_test

import (
	"context"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The status of a custom resource shows what came of a Reconcile.
func ExampleCoordinator_Condition() {
	reconcile := func(ctx context.Context, c *coordination.Coordinator, conditions *[]metav1.Condition, system coordination.System) error {
		settings := coordination.Settings{Mode: coordination.Global, Prefix: "dc1"}
		result, err := c.Reconcile(ctx, settings, system)
		apimeta.SetStatusCondition(conditions, c.Condition(result, err, "dc1", "dc2", "dc3"))
		for _, event := range result.Events {
			fmt.Println(event.Reason, event.Message, event.IsWarning())
		}
		return err
	}
	_ = reconcile
}
