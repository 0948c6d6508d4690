package kubestore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

const (
	// stateKey is where in the ConfigMap the state is.
	stateKey = "state"
	// maxSize is how much the API server takes in one ConfigMap.
	maxSize = corev1.MaxSecretSize
)

// document is a state together with the ConfigMap that it was read from.
type document struct {
	*state
	// object has an empty resourceVersion if there is no ConfigMap yet.
	object *corev1.ConfigMap
}

// read reads the ConfigMap as it is now: the answer to a read that names no resourceVersion is as new as the question.
func (s *store) read(ctx context.Context) (*document, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	own := s.ownSessions()
	object, err := s.configMaps.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		object, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s/%s: %w", s.namespace, s.name, err)
	}
	current, err := s.decode(object)
	if err != nil {
		return nil, err
	}
	for _, session := range own {
		if _, alive := current.Sessions[session.id]; !alive {
			session.Lose() // it may be news if somebody has deleted the Lease or the ConfigMap
			s.forget(session)
		}
	}
	return &document{state: current, object: object}, nil
}

func (s *store) decode(object *corev1.ConfigMap) (*state, error) {
	current, err := decode(object.Data[stateKey])
	if err != nil {
		return nil, fmt.Errorf("the state in the ConfigMap %s/%s cannot be read, correct it: %w", s.namespace, s.name, err)
	}
	return current, nil
}

// change reads the state and writes what decide makes of it, until nobody else has written in between. Decide
// tells whether there is anything to write, and may be called several times. Reserve is that of kv.Transaction.
func (s *store) change(ctx context.Context, reserve int, decide func(*state) (bool, error)) (int64, error) {
	for tries := 0; ; tries++ {
		current, err := s.read(ctx)
		if err != nil {
			return 0, err
		}
		changed, err := decide(current.state)
		if err != nil || !changed {
			return current.Revision, err
		}
		err = s.write(ctx, current, reserve)
		if err == nil {
			return current.Revision, nil
		}
		if !isRefused(err) {
			return 0, err
		}
		if err := s.pause(ctx, tries); err != nil {
			return 0, fmt.Errorf("writing the ConfigMap %s/%s, which others write all the time: %w", s.namespace, s.name, err)
		}
	}
}

// isRefused tells whether the API server has surely not written, and may do so the next time: somebody else has
// written, created or deleted the ConfigMap since it was read, or there were too many requests.
func isRefused(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err)
}

// pause lets writers that are in each other's way take different times.
func (s *store) pause(ctx context.Context, tries int) error {
	const unit, most = 10 * time.Millisecond, 5
	timer := s.clock.NewTimer(rand.N(unit << min(tries, most)))
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes the document if nobody has since it was read. It is sent only once: client-go sends some requests
// again that the server may have carried out, and would then report a conflict with this process's own write.
func (s *store) write(ctx context.Context, changed *document, reserve int) error {
	text, err := changed.encode()
	if err != nil {
		return fmt.Errorf("writing down the state: %w", err)
	}
	if limit := maxSize / 100 * (100 - reserve); len(text) > limit && len(text) > len(changed.object.Data[stateKey]) {
		return s.tooLarge(len(text), limit)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	object := changed.object.DeepCopy()
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[stateKey] = text
	request := s.core.RESTClient().Post()
	if object.ResourceVersion != "" {
		request = s.core.RESTClient().Put().Name(s.name)
	}
	err = request.Namespace(s.namespace).Resource("configmaps").MaxRetries(0).Body(object).Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("%w: %w", s.tooLarge(len(text), maxSize), err)
	}
	return fmt.Errorf("writing the ConfigMap %s/%s: %w", s.namespace, s.name, err)
}

func (s *store) tooLarge(size, limit int) error {
	const kept = "; the rest is reserved for the writes that end an action"
	text := fmt.Sprintf("the ConfigMap %s/%s would have %d bytes, and is limited to %d", s.namespace, s.name, size, limit)
	if limit < maxSize/100*100 {
		text += kept
	}
	return fmt.Errorf("%w: %s: wait until the pending actions are done, remove the entries of participants that are gone "+
		"(ringmaster coordination status shows it), or use etcdstore", kv.ErrTooLarge, text)
}
