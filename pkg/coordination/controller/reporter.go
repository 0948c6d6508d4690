package controller

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// maxActionBytes and maxNoteBytes are the limits of the API server for events.
const maxActionBytes, maxNoteBytes = 128, 1024

// Reporter reports what happened to an object.
type Reporter func(warning bool, reason, message string)

// NewReporter returns a Reporter that writes events about an object, and log messages with the logger of the context.
func NewReporter(ctx context.Context, recorder events.EventRecorder, about runtime.Object) Reporter {
	return func(warning bool, reason, message string) {
		kind := corev1.EventTypeNormal
		if warning {
			kind = corev1.EventTypeWarning
		}
		// Events with the same reason and action are one series. Different messages are different events.
		recorder.Eventf(about, nil, kind, reason, Truncate(message, maxActionBytes), "%s", Truncate(message, maxNoteBytes))
		logf.FromContext(ctx).Info(message, "reason", reason)
	}
}

// Events reports what happened in a Reconcile.
func (r Reporter) Events(result *coordination.Result) {
	for _, event := range result.Events {
		r(event.IsWarning(), event.Reason, event.Message)
	}
}

// SetCondition sets a condition. If the condition is false with a new reason, it is reported as a warning.
func (r Reporter) SetCondition(conditions *[]metav1.Condition, condition metav1.Condition) {
	last := apimeta.FindStatusCondition(*conditions, condition.Type)
	isNew := last == nil || last.Status != condition.Status || last.Reason != condition.Reason
	if condition.Status == metav1.ConditionFalse && isNew {
		r(true, condition.Reason, condition.Message)
	}
	apimeta.SetStatusCondition(conditions, condition)
}

// Truncate shortens a text to at most a number of bytes, for a field or an event with a limit. A shortened text ends with an
// ellipsis.
func Truncate(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, longest-3)], "") + "..."
}
