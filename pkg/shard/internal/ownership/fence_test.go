package ownership

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestRefusedWrite distinguishes refusals by the fence from others, and an object that another shard owns from one that
// this shard still owns.
func TestRefusedWrite(t *testing.T) {
	o := newTestShard(t)
	refusal := func(policy string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "home",
			fmt.Errorf("ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: no", policy))
	}
	for name, test := range map[string]struct {
		err    error
		fenced bool
	}{
		"by the fence":                  {refusal("controllerring-ring-fence"), true},
		"by the fence, wrapped":         {fmt.Errorf("updating the status: %w", refusal("controllerring-ring-fence")), true},
		"by another policy of the ring": {refusal("controllerring-ring-scale"), false},
		"by the fence of another ring":  {refusal("controllerring-string-fence"), false},
		"by RBAC":                       {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "home", errors.New("no role")), false},
		"not at all":                    {errors.New("'controllerring-ring-fence'"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if fenced := o.IsFenced(test.err); fenced != test.fenced {
				t.Errorf("IsFenced is %t", fenced)
			}
		})
	}

	home := types.NamespacedName{Namespace: "default", Name: "home"}
	if owner := o.OtherOwner(t.Context(), o.kind, home); owner != "" {
		t.Errorf("this shard's object is owned by %q", owner)
	}
	moved := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home.Namespace, Name: home.Name}}
	if err := o.api.Patch(t.Context(), moved, assignTo("b")); err != nil {
		t.Fatal(err)
	}
	if owner := o.OtherOwner(t.Context(), o.kind, home); owner != "b" {
		t.Errorf("the object of shard b is owned by %q", owner)
	}
	o.beforeRead = func() error { return errors.New("unreachable") }
	if owner := o.OtherOwner(t.Context(), o.kind, home); owner != "" {
		t.Errorf("an object that cannot be read is owned by %q", owner)
	}
}
